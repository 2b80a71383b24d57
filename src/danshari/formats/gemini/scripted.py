"""Scripted Gemini conversations and responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from danshari.formats.script import Call, MessageBuilder, ProviderScript, Turn, TurnUsage, split_deltas
from danshari.formats.sse import render_event


class GeminiBuilder(MessageBuilder):
    """Builds contents without call ids, as the API gives them."""

    def system(self, text: str) -> None:
        """Add a system prompt as the user's text; a real one stands outside the contents."""
        self.user(text)

    def user(self, text: str) -> None:
        """Add what the user says."""
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["parts"].append({"text": text})
        else:
            self.messages.append({"role": "user", "parts": [{"text": text}]})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Add the model's content and one user content with all function responses."""
        self.messages.append({"role": "model", "parts": _parts(turn, len(self.messages))})
        results = [
            {"functionResponse": {"name": c.name, "response": {"error" if c.failed else "output": c.result}}}
            for c in calls
            if c.result is not None
        ]
        if results:
            self.messages.append({"role": "user", "parts": results})


def _parts(turn: Turn, number: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if turn.thinking:
        parts.append({"text": turn.thinking, "thought": True})
    if turn.text or not turn.calls:
        parts.append({"text": turn.text or "…"})
    for n, call in enumerate(turn.calls):
        signature = {"thoughtSignature": f"c2lnbmF0dXJl{number:04d}"} if not n else {}
        parts.append({"functionCall": {"name": call.name, "args": call.arguments}, **signature})
    return parts


class GeminiScript(ProviderScript):
    """Scripted Gemini conversations and responses."""

    builder = GeminiBuilder

    def response(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> dict[str, Any]:
        """Return a turn as one JSON response."""
        return _response(_parts(turn, number), usage, model, number, finish="STOP")

    def stream(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> Iterator[bytes]:
        """Yield a turn as server-sent events, each a whole response with some parts."""
        parts = [
            {**part, "text": text} if "text" in part else part
            for part in _parts(turn, number)
            for text in (split_deltas(part["text"]) if "text" in part else [""])
        ]
        for part in parts[:-1]:
            yield render_event(_response([part], {**usage, "output": 0}, model, number))
        yield render_event(_response(parts[-1:], usage, model, number, finish="STOP"))


def _response(parts: Sequence[Any], usage: TurnUsage, model: str, number: int, *, finish: str = "") -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    total = usage["fresh"] + usage["cached"] + usage["written"]
    return {
        "candidates": [{**candidate, "finishReason": finish} if finish else candidate],
        "usageMetadata": {
            "promptTokenCount": total, "cachedContentTokenCount": usage["cached"],
            "candidatesTokenCount": usage["output"], "totalTokenCount": total + usage["output"],
        },
        "modelVersion": model,
        "responseId": f"response-{number:06d}",
    }  # fmt: skip


SCRIPT = GeminiScript()
