"""Other people's compactors in the same run: one small file and one row each, every one in its own environment.

A peer's file holds functions `start(budget, summarize) -> compact`, and `compact(messages) -> messages` is called with
the full chat history before every request. The files run under the peer's own interpreter, without a network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from danshari.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One row: which file and function starts it, and what its environment needs."""

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
        """Name the environment; rows of one file share it."""
        return self.module


def _rows(module: str, requires: tuple[str, ...], *rows: Peer) -> tuple[Peer, ...]:
    return tuple(replace(row, module=module, requires=requires) for row in rows)


def _peer(name: str, start: str, about: str, *, budgeted: bool = False, needs_model: bool = False) -> Peer:
    return Peer(name=name, start=start, about=about, module="", budgeted=budgeted, needs_model=needs_model)


PEERS: tuple[Peer, ...] = (
    *_rows(
        "langchain",
        ("langchain==1.5.2",),
        _peer("langchain-clear", "clear", "LangChain ClearToolUsesEdit (trigger 100,000, keep 3)", budgeted=True),
        _peer("langchain-trim", "trim", "LangChain trim_messages (last, 100,000 tokens)", budgeted=True),
        _peer("langchain-summary", "summary", "LangChain SummarizationMiddleware (100,000, keep 20)", budgeted=True,
              needs_model=True),
    ),
    *_rows(
        "cliffcompaction",
        ("cliffcompaction==0.1.0",),
        _peer("cliffcompaction", "start", "template summary of all but 3 turns over a threshold", budgeted=True),
    ),
    *_rows(
        "distil",
        ("distil-llm==1.58.0",),
        _peer("distil", "library", "distil, library call: digests of tool output"),
        _peer("distil-proxy", "proxy", "distil, its OpenAI proxy adapter"),
    ),
    *_rows(
        "headroom",
        ("headroom-ai==0.42.0", "onnxruntime>=1.24", "litellm==1.110.2"),
        _peer("headroom", "start", "headroom, history handed back, without its text model"),
    ),
    *_rows(
        "llmslim",
        ("llmslim==0.11.2",),
        _peer("llmslim-proxy", "proxy", "llmslim, the proxy's first-sight policy"),
        _peer("llmslim-chat", "chat", "llmslim compress_chat_messages (ratio .5)"),
    ),
    *_rows(
        "furl",
        ("furl-ctx==1.4.0", "tiktoken>=0.7", "litellm==1.110.2"),
        _peer("furl", "start", "furl-ctx compress() at its defaults"),
    ),
    *_rows(
        "pydantic_ai",
        ("pydantic-ai-harness==0.62.0",),
        _peer("pydantic-ai-clear", "clear", "pydantic-ai-harness ClearToolResults (100,000)", budgeted=True),
        _peer("pydantic-ai-tiered", "tiered", "pydantic-ai-harness TieredCompaction: clear, then summarise",
              budgeted=True, needs_model=True),
    ),
    *_rows(
        "litellm",
        ("litellm==1.110.2",),
        _peer("litellm", "start", "litellm.compress (trigger 30,000: its default of 200,000 never fires here)"),
    ),
)  # fmt: skip
"""Rows in the order of the tables. Versions are pinned: results are cached by them."""


def peer(name: str) -> Peer:
    """Give a row by name; raises ArgumentError listing the known ones."""
    found = next((p for p in PEERS if p.name == name), None)
    if found is None:
        raise ArgumentError(f"unknown peer {name!r}; known: {', '.join(p.name for p in PEERS)}")
    return found
