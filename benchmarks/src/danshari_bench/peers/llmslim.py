"""Adapters for llmslim: its proxy policy (compress a result when first seen) and compress_chat_messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from llmslim import compress_chat_messages
from llmslim.proxy.rewrite import COMPRESSIBLE_TOOLS, Policy, rewrite_request

EXTRA_TOOLS = ("bash", "shell", "grep", "glob", "webfetch", "websearch", "exec_command")
"""Names the recordings use for what its own list means (Bash, Grep, Glob, WebFetch, WebSearch)."""


class BlockCache(dict[str, tuple[Any, int, int]]):
    """In-memory version of the proxy's block cache."""

    def put(self, key: str, *, tool: str, original: str, compressed: Any, before: int, after: int) -> None:  # noqa: ARG002
        """Remember a compressed block."""
        self.setdefault(key, (compressed, before, after))


def to_proxy_messages(messages: list[Any]) -> list[Any]:
    """Convert chat messages to the form that llmslim's proxy reads."""
    made: list[Any] = []
    for m in messages:
        if m["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": m["tool_call_id"], "content": m.get("content") or ""}
            made.append({"role": "user", "content": [block]})
        elif m["role"] == "assistant":
            uses = [
                {"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": parse_tool_input(c)}
                for c in m.get("tool_calls") or ()
            ]
            text = [{"type": "text", "text": m["content"]}] if m.get("content") else []
            made.append({"role": "assistant", "content": text + uses})
        else:
            made.append({"role": "user", "content": m.get("content") or ""})
    return made


def parse_tool_input(call: Any) -> Any:
    """Parse call arguments; text that is not JSON is wrapped in an object."""
    try:
        return json.loads(call["function"]["arguments"] or "{}")
    except ValueError:
        return {"input": call["function"]["arguments"]}


def proxy(_: int | None, __: Any) -> Callable[[list[Any]], list[Any]]:
    """Compress each result once, when it is first seen."""
    policy = Policy(tools=COMPRESSIBLE_TOOLS | frozenset(EXTRA_TOOLS))
    blocks = BlockCache()

    def compact(messages: list[Any]) -> list[Any]:
        body, _ = rewrite_request({"messages": to_proxy_messages(messages)}, blocks, policy)
        shown = []
        for m, new in zip(messages, body["messages"], strict=True):
            text = new["content"][0]["content"] if m["role"] == "tool" else None
            shown.append({**m, "content": text} if isinstance(text, str) and text != m.get("content") else m)
        return shown

    return compact


def chat(_: int | None, __: Any) -> Callable[[list[Any]], list[Any]]:
    """Compress the whole list to half its size, llmslim's default."""
    roles = ("user", "assistant", "tool")
    return lambda messages: list(compress_chat_messages(messages, target_ratio=0.5, compressible_roles=roles))
