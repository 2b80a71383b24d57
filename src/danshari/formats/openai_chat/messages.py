"""OpenAI chat completions: roles system, developer, user, assistant, tool (and legacy function)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.items import (
    Item,
    Piece,
    canonical_arguments,
)
from danshari.formats.base import (
    EMPTY,
    FILE_TOKENS,
    IMAGE_TOKENS,
    Changes,
    Format,
    ImageSource,
    Message,
    Problem,
    as_plain_value,
    media_piece,
    opaque_piece,
    split_data_url,
    string_or_empty,
)

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_MEDIA = {"image_url": IMAGE_TOKENS, "input_audio": FILE_TOKENS, "file": FILE_TOKENS, "audio": FILE_TOKENS}


class OpenAIChat(Format):
    """Reads and changes chat completion messages."""

    name = "openai-chat"
    can_answer = True

    def sign(self, message: Message) -> bool:
        """Return whether the message has what only this format has.

        That is a tool or developer role, `tool_calls`, or a part type of chat completions.
        """
        if message.get("role") in ("tool", "developer", "function") and "type" not in message:
            return True
        if message.get("tool_calls") or message.get("function_call"):
            return True
        content = message.get("content")
        if not isinstance(content, list):
            return False
        return any(
            isinstance(part, Mapping) and part.get("type") in (*_MEDIA, "refusal")
            for part in map(as_plain_value, content)
        )

    def pieces(self, message: Message) -> list[Piece]:
        """Split into reasoning, content parts, refusal, calls; a tool message is one result plus its media."""
        role: Any = _ROLES.get(message.get("role", ""))
        if role is None:
            return [opaque_piece(message, "user")]
        if role == "tool":
            return self._result_pieces(message)
        found: list[Piece] = []
        reasoning = message.get("reasoning_content")
        if isinstance(reasoning, str) and reasoning and role == "assistant":
            found.append(Piece(kind="reasoning", role=role, text=reasoning))
        content = message.get("content")
        if isinstance(content, str):
            found.append(Piece(kind="text", role=role, text=content))
        elif isinstance(content, list):
            found += [self._part_piece(as_plain_value(part), role) for part in content]
        if isinstance(message.get("refusal"), str):
            found.append(Piece(kind="text", role=role, text=message["refusal"], body="refusal:" + message["refusal"]))
        found += [self._call_piece(as_plain_value(call)) for call in self._tool_calls(message)]
        if isinstance(legacy := message.get("function_call"), Mapping):
            name = string_or_empty(legacy.get("name"))
            arguments = string_or_empty(legacy.get("arguments"))
            found.append(
                Piece(
                    kind="call",
                    role=role,
                    text=arguments,
                    name=name,
                    call=f"function:{name}",
                    body=canonical_arguments(arguments),
                )
            )
        return found

    def _tool_calls(self, message: Message) -> Sequence[Any]:
        calls = message.get("tool_calls")
        return calls if isinstance(calls, list) else ()

    def _call_piece(self, call: Any) -> Piece:
        """Read a tool call of either kind (function or custom). Anything else becomes an opaque piece."""
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            custom = call.get("custom") if isinstance(call, Mapping) else None
            if isinstance(custom, Mapping):
                text = string_or_empty(custom.get("input"))
                return Piece(
                    kind="call",
                    role="assistant",
                    text=text,
                    name=string_or_empty(custom.get("name")),
                    call=string_or_empty(call.get("id")),
                    body="custom:" + text,
                    raw=call,
                )
            return opaque_piece(call, "assistant")
        arguments = string_or_empty(function.get("arguments"))
        return Piece(
            kind="call",
            role="assistant",
            text=arguments,
            name=string_or_empty(function.get("name")),
            call=string_or_empty(call.get("id")),
            body=canonical_arguments(arguments),
        )

    def _result_pieces(self, message: Message) -> list[Piece]:
        call = string_or_empty(message.get("tool_call_id")) or f"function:{string_or_empty(message.get('name'))}"
        name = string_or_empty(message.get("name"))
        content = message.get("content")
        content = list(map(as_plain_value, content)) if isinstance(content, list) else content
        if not isinstance(content, list):
            return [Piece(kind="result", role="tool", text=string_or_empty(content), name=name, call=call)]
        text = "\n".join(
            string_or_empty(p.get("text")) for p in content if isinstance(p, Mapping) and p.get("type") == "text"
        )
        rest = [
            self._part_piece(p, "tool", call) for p in content if not isinstance(p, Mapping) or p.get("type") != "text"
        ]
        return [Piece(kind="result", role="tool", text=text, name=name, call=call), *rest]

    def _part_piece(self, part: Any, role: Any, call: str = "") -> Piece:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str):
            return Piece(kind="text", role=role, text=part["text"])
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            return Piece(kind="text", role=role, text=part["refusal"], body="refusal:" + part["refusal"])
        if kind in _MEDIA:
            return media_piece(part, role, _MEDIA[str(kind)], call)
        return opaque_piece(part, role, call)

    def patch(self, message: Message, changes: Changes) -> Message | None:
        """Copy a message with some pieces changed."""
        if _ROLES.get(message.get("role", "")) == "tool":
            return self._patch_result(message, changes)
        out = dict(message)
        at = 0
        reasoning = message.get("reasoning_content")
        if message.get("role") == "assistant" and isinstance(reasoning, str) and reasoning:
            if changes.get(at, "") is None:
                del out["reasoning_content"]
            at += 1
        content = message.get("content")
        if isinstance(content, str):
            if at in changes:
                out["content"] = changes[at]
            at += 1
        elif isinstance(content, list):
            out["content"] = _patch_parts(content, changes, at) or None
            at += len(content)
        if isinstance(message.get("refusal"), str):
            if at in changes:
                out["refusal"] = changes[at]
            at += 1
        calls = [_patch_call(call, changes, at + n) for n, call in enumerate(self._tool_calls(message))]
        if calls:
            out["tool_calls"] = [call for call in calls if call is not None]
            at += len(calls)
            if not out["tool_calls"]:
                del out["tool_calls"]
        if isinstance(message.get("function_call"), Mapping) and at in changes:
            if changes[at] is None:
                del out["function_call"]
            else:
                out["function_call"] = {**message["function_call"], "arguments": changes[at]}
        empty = not out.get("content") and not out.get("tool_calls") and not out.get("function_call")
        return None if empty and not out.get("refusal") else out

    def _patch_result(self, message: Message, changes: Changes) -> Message | None:
        if changes.get(0, "") is None:
            return None
        content = message.get("content")
        if not isinstance(content, list):
            return {**message, "content": changes[0]} if 0 in changes else message
        rest = [p for p in content if not isinstance(p, Mapping) or p.get("type") != "text"]
        kept = [p for n, p in enumerate(rest, 1) if changes.get(n, "") is not None]
        texts: list[Any] = [p for p in content if isinstance(p, Mapping) and p.get("type") == "text"]
        if 0 in changes:
            texts = [{**(texts[0] if texts else {"type": "text"}), "text": changes[0]}]
        return {**message, "content": texts + kept}

    def append_text(self, message: Message, text: str) -> Message:
        """Append a text part, or a paragraph to string content."""
        content = message.get("content")
        if isinstance(content, list):
            return {**message, "content": [*content, {"type": "text", "text": text}]}
        return {**message, "content": f"{string_or_empty(content)}\n\n{text}" if content else text}

    def user_message(self, text: str) -> Message:
        """Make a user message with string content."""
        return {"role": "user", "content": text}

    def assistant_message(self, text: str) -> Message:
        """Make a message of the assistant."""
        return {"role": "assistant", "content": text}

    def answer(self, call: Piece, text: str) -> Message:
        """Make a tool message."""
        if call.call.startswith("function:"):
            return {"role": "function", "name": call.name, "content": text}
        return {"role": "tool", "tool_call_id": call.call, "content": text}

    def fill_empty(self, message: Message) -> Message:
        """Fill what has neither content nor calls; an empty string is content."""
        role, content = message.get("role"), message.get("content")
        if content not in (None, []) or role not in _ROLES or (role == "assistant" and _says_more(message)):
            return message
        return {**message, "content": "" if role in ("tool", "function") else EMPTY}

    def image_source(self, raw: Mapping[str, Any]) -> ImageSource | None:
        """Return the image of an image_url part, here or in the Responses API, where the URL stands bare."""
        url = raw.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
        return (split_data_url(url) or url) if isinstance(url, str) else None

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Build messages: one per turn, per result, and per run of user parts."""
        from danshari.formats.openai_chat.build import build_chat

        return build_chat(items, [] if lost is None else lost)

    def check(self, payload: object) -> list[Problem]:
        """List the broken rules: roles, pairing, arguments, content, encoding."""
        from danshari.formats.openai_chat.rules import check_chat

        return check_chat(self.messages(payload))


def _says_more(message: Message) -> bool:
    """Return whether an assistant message has something beside content."""
    return any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))


def _patch_parts(content: Sequence[Any], changes: Changes, at: int) -> list[Any]:
    parts = []
    for ordinal, part in enumerate(content, at):
        if ordinal not in changes:
            parts.append(part)
        elif changes[ordinal] is not None:
            parts.append({**as_plain_value(part), "text": changes[ordinal]})
    return parts


def _patch_call(call: Any, changes: Changes, at: int) -> Any:
    if at not in changes:
        return call
    text = changes[at]
    call = as_plain_value(call)
    if text is None:
        return None
    if isinstance(call.get("custom"), Mapping):
        return {**call, "custom": {**call["custom"], "input": text}}
    return {**call, "function": {**call["function"], "arguments": text}}
