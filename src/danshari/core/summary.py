"""A request to a summarizer and its reply, independent of any provider's format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to a summarizer, in the wire format named `format`."""

    format: str
    messages: list[Any]
    """In a warm request: the agent's own messages, the instruction last."""
    system: Any = None
    tools: Any = None
    model: str = ""
    """Empty: the summarizer's own."""
    most: int = 4_000
    """Tokens the answer may have."""
    effort: str = ""
    warm: bool = False
    """Whether the messages extend the agent's own request, so that its cached prefix is read."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the agent's request, sent along unchanged in a warm request."""

    def to_dict(self) -> dict[str, Any]:
        """Return what a plain callable receives: system, messages, tools, model, params."""
        params: dict[str, Any] = {"max_tokens": self.most}
        if self.effort:
            params["effort"] = self.effort
        return {
            "format": self.format,
            "system": self.system,
            "messages": self.messages,
            "tools": self.tools,
            "model": self.model,
            "params": params,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a summarizer answered; sizes in tokens."""

    text: str = ""
    finish: str = "stop"
    """stop, length, tool_calls, refusal, or what the provider said."""
    calls: int = 0
    """Tool calls in the answer; none is ever run."""
    reasoning: str = ""
    read: int = 0
    """Input tokens, cached ones included."""
    cached: int = 0
    written: int = 0
    """Output tokens."""
