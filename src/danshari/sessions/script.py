"""Writes a session down as chat completions, whatever order its source tells it in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from danshari.sessions.base import Recorded, call, seconds

UNANSWERED = "(no result was recorded)"
Calls = Iterable[tuple[str, str, Any]]
"""(id, tool name, arguments as an object or JSON text)."""


class Script:
    """Appends messages; results go to their call, unanswered calls are answered, what has no call is noted."""

    def __init__(self, session: Recorded) -> None:
        self.session = session
        session.format = "openai-chat"
        self._open: dict[str, int] = {}
        """Id of an unanswered call → index of the message that made it."""
        self._made = 0

    def fresh_id(self) -> str:
        """Make an id for a call whose source gave none."""
        self._made += 1
        return f"call_{self._made:05d}"

    def system(self, text: str, time: Any = None) -> None:
        """Say something as the system."""
        self._plain("system", text, time)

    def user(self, text: str, time: Any = None) -> None:
        """Say something as the user."""
        self._plain("user", text, time)

    def _plain(self, role: str, text: str, time: Any) -> None:
        if text:
            self._close()
            self._append({"role": role, "content": text}, time)

    def assistant(
        self, text: str = "", *, thinking: str = "", calls: Calls = (), time: Any = None, usage: Any = None
    ) -> None:
        """Say something as the assistant; a turn of thinking alone is left out."""
        made = [call(i, name, arguments) for i, name, arguments in calls]
        if not text and not made:
            return
        self._close()
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if thinking:
            message["reasoning_content"] = thinking
        if made:
            message["tool_calls"] = made
        at = self._append(message, time)
        self._open.update({c["id"]: at for c in made})
        if isinstance(usage, dict) and usage:
            self.session.usages[at] = usage

    def join(self, calls: Calls) -> None:
        """Add calls to the assistant turn said last, as parallel calls of one model answer."""
        at = len(self.session.messages) - 1
        while at >= 0 and self.session.messages[at]["role"] == "tool":
            at -= 1
        if at < 0 or self.session.messages[at]["role"] != "assistant":
            self.assistant(calls=calls)
            return
        made = [call(i, name, arguments) for i, name, arguments in calls]
        self.session.messages[at].setdefault("tool_calls", []).extend(made)
        self._open.update({c["id"]: at for c in made})

    def result(self, call_id: str, text: str, time: Any = None) -> None:
        """Answer a call."""
        if call_id not in self._open:
            self.session.notes.append(f"result {call_id} without an open call was left out")
            return
        del self._open[call_id]
        self._append({"role": "tool", "tool_call_id": call_id, "content": text or "(no output)"}, time)

    def waiting(self, name: str = "") -> str:
        """Give the oldest unanswered call (of a tool), empty if there is none."""
        for call_id, at in self._open.items():
            for made in self.session.messages[at]["tool_calls"]:
                if made["id"] == call_id and name in ("", made["function"]["name"]):
                    return call_id
        return ""

    def _append(self, message: dict[str, Any], time: Any) -> int:
        at = len(self.session.messages)
        self.session.messages.append(message)
        if (when := seconds(time)) is not None:
            self.session.times[at] = when
        return at

    def _close(self) -> None:
        """Answer what is still open, so that the next message may follow."""
        for call_id in list(self._open):
            self.session.notes.append(f"call {call_id} was never answered")
            self.result(call_id, UNANSWERED)

    def done(self) -> Recorded:
        """Give the session; calls of the very last turn may stay open."""
        return self.session


def text_of(content: Any) -> str:
    """Give the text of a content value: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return str(content.get("text") or "")
    parts = [p.get("text") if isinstance(p, dict) else p for p in content or ()]
    return "\n".join(p for p in parts if isinstance(p, str) and p)


def obj(value: Any) -> dict[str, Any]:
    """Give an object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}
