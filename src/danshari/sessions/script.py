"""Writer of chat completions that the session readers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from danshari.sessions.base import RecordedSession, chat_tool_call, parse_timestamp

NO_RESULT_TEXT = "(no result was recorded)"
CallTuples = Iterable[tuple[str, str, Any]]
"""(id, tool name, arguments as an object or JSON text)."""


class ChatSessionWriter:
    """Writes the messages of a session in the chat completions format, whatever the order of its source.

    A result is added to its call. Calls without a result are answered with a fixed text, except in the last
    turn. Results without a call are skipped with a note.
    """

    def __init__(self, session: RecordedSession) -> None:
        self.session = session
        session.format = "openai-chat"
        self._open: dict[str, int] = {}
        """Id of an unanswered call → index of the message that made it."""
        self._made = 0

    def make_call_id(self) -> str:
        """Return an id for a call whose source has none."""
        self._made += 1
        return f"call_{self._made:05d}"

    def system(self, text: str, time: Any = None) -> None:
        """Add a system message, if the text is not empty."""
        self._add_text("system", text, time)

    def user(self, text: str, time: Any = None) -> None:
        """Add a user message, if the text is not empty."""
        self._add_text("user", text, time)

    def _add_text(self, role: str, text: str, time: Any) -> None:
        if text:
            self._close_open_calls()
            self._append_message({"role": role, "content": text}, time)

    def assistant(
        self, text: str = "", *, thinking: str = "", calls: CallTuples = (), time: Any = None, usage: Any = None
    ) -> None:
        """Add an assistant message. A turn of thinking alone is skipped."""
        made = [chat_tool_call(i, name, arguments) for i, name, arguments in calls]
        if not text and not made:
            return
        self._close_open_calls()
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if thinking:
            message["reasoning_content"] = thinking
        if made:
            message["tool_calls"] = made
        at = self._append_message(message, time)
        self._open.update({c["id"]: at for c in made})
        if isinstance(usage, dict) and usage:
            self.session.usages[at] = usage

    def join_calls(self, calls: CallTuples) -> None:
        """Add calls to the last assistant message, as parallel calls of one model answer."""
        at = len(self.session.messages) - 1
        while at >= 0 and self.session.messages[at]["role"] == "tool":
            at -= 1
        if at < 0 or self.session.messages[at]["role"] != "assistant":
            self.assistant(calls=calls)
            return
        made = [chat_tool_call(i, name, arguments) for i, name, arguments in calls]
        self.session.messages[at].setdefault("tool_calls", []).extend(made)
        self._open.update({c["id"]: at for c in made})

    def result(self, call_id: str, text: str, time: Any = None) -> None:
        """Add the result of a call. It is skipped with a note if no such call is unanswered."""
        if call_id not in self._open:
            self.session.notes.append(f"result {call_id} without an open call was left out")
            return
        del self._open[call_id]
        self._append_message({"role": "tool", "tool_call_id": call_id, "content": text or "(no output)"}, time)

    def oldest_open_call(self, name: str = "") -> str:
        """Return the id of the oldest unanswered call of any tool, or of `name` if given; empty if there is none."""
        for call_id, at in self._open.items():
            for made in self.session.messages[at]["tool_calls"]:
                if made["id"] == call_id and name in ("", made["function"]["name"]):
                    return call_id
        return ""

    def _append_message(self, message: dict[str, Any], time: Any) -> int:
        at = len(self.session.messages)
        self.session.messages.append(message)
        if (when := parse_timestamp(time)) is not None:
            self.session.times[at] = when
        return at

    def _close_open_calls(self) -> None:
        """Answer all unanswered calls, so that the next message may follow."""
        for call_id in list(self._open):
            self.session.notes.append(f"call {call_id} was never answered")
            self.result(call_id, NO_RESULT_TEXT)

    def finish(self) -> RecordedSession:
        """Return the session. Calls of the very last turn may stay unanswered."""
        return self.session


def content_text(content: Any) -> str:
    """Return the text of a content value: a string, a text part, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return str(content.get("text") or "")
    parts = [p.get("text") if isinstance(p, dict) else p for p in content or ()]
    return "\n".join(p for p in parts if isinstance(p, str) and p)


def object_or_empty(value: Any) -> dict[str, Any]:
    """Return a dict as it is, and an empty dict for any other value."""
    return value if isinstance(value, dict) else {}
