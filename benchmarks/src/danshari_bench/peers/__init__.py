"""Other compaction libraries (peers) in the comparison, each with an adapter and its own environment.

An adapter has functions `start(budget, summarize) -> compact`; `compact(messages) -> messages` is
called with the full chat history before every request. Adapters run under the peer's own
interpreter, without network access.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from danshari.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One peer: the adapter module and function that start it, and the packages it needs."""

    name: str
    about: str
    module: str
    start: str = "start"
    requires: tuple[str, ...] = ()
    budgeted: bool = False
    """Whether it heeds a token budget."""
    needs_model: bool = False
    """Whether it asks a model; it gets the scripted summariser."""

    @property
    def environment(self) -> str:
        """The name of the environment; peers with the same adapter share it."""
        return self.module


def _with_module(module: str, requires: tuple[str, ...], *rows: Peer) -> tuple[Peer, ...]:
    """Return the rows with their adapter module and requirements filled in."""
    return tuple(replace(row, module=module, requires=requires) for row in rows)


def _make_peer(name: str, start: str, about: str, *, budgeted: bool = False, needs_model: bool = False) -> Peer:
    return Peer(name=name, start=start, about=about, module="", budgeted=budgeted, needs_model=needs_model)


PEERS: tuple[Peer, ...] = (
    *_with_module(
        "langchain",
        ("langchain==1.5.2",),
        _make_peer("langchain-clear", "clear", "LangChain ClearToolUsesEdit (trigger 100,000, keep 3)", budgeted=True),
        _make_peer("langchain-trim", "trim", "LangChain trim_messages (last, 100,000 tokens)", budgeted=True),
        _make_peer(
            "langchain-summary",
            "summary",
            "LangChain SummarizationMiddleware (100,000, keep 20)",
            budgeted=True,
            needs_model=True,
        ),
    ),
    *_with_module(
        "cliffcompaction",
        ("cliffcompaction==0.1.0",),
        _make_peer("cliffcompaction", "start", "template summary of all but 3 turns over a threshold", budgeted=True),
    ),
    *_with_module(
        "distil",
        ("distil-llm==1.58.0",),
        _make_peer("distil", "library", "distil, library call: digests of tool output"),
        _make_peer("distil-proxy", "proxy", "distil, its OpenAI proxy adapter"),
    ),
    *_with_module(
        "headroom",
        ("headroom-ai==0.42.0", "onnxruntime>=1.24", "litellm==1.110.2"),
        _make_peer("headroom", "start", "headroom, history handed back, without its text model"),
    ),
    *_with_module(
        "llmslim",
        ("llmslim==0.11.2",),
        _make_peer("llmslim-proxy", "proxy", "llmslim, the proxy's first-sight policy"),
        _make_peer("llmslim-chat", "chat", "llmslim compress_chat_messages (ratio .5)"),
    ),
    *_with_module(
        "furl",
        ("furl-ctx==1.4.0", "tiktoken>=0.7", "litellm==1.110.2"),
        _make_peer("furl", "start", "furl-ctx compress() at its defaults"),
    ),
    *_with_module(
        "pydantic_ai",
        ("pydantic-ai-harness==0.62.0",),
        _make_peer("pydantic-ai-clear", "clear", "pydantic-ai-harness ClearToolResults (100,000)", budgeted=True),
        _make_peer(
            "pydantic-ai-tiered",
            "tiered",
            "pydantic-ai-harness TieredCompaction: clear, then summarise",
            budgeted=True,
            needs_model=True,
        ),
    ),
    *_with_module(
        "litellm",
        ("litellm==1.110.2",),
        _make_peer("litellm", "start", "litellm.compress (trigger 30,000: its default of 200,000 never fires here)"),
    ),
)
"""Rows in the order of the tables. Versions are pinned: results are cached by them."""


def find_peer(name: str) -> Peer:
    """Return a peer by name. Raises ArgumentError with the known names."""
    found = next((p for p in PEERS if p.name == name), None)
    if found is None:
        raise ArgumentError(f"unknown peer {name!r}; known: {', '.join(p.name for p in PEERS)}")
    return found
