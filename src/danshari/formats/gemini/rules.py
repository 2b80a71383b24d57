"""Rules for which `generateContent` rejects a request.

Sources: API reference, function calling guide, error messages in public bug reports, 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.text import is_valid_text
from danshari.formats.base import Problem, as_plain_value, collect_strings
from danshari.formats.gemini.parts import find_object


def check_gemini(contents: Sequence[Any]) -> list[Problem]:
    """List the broken rules. Unanswered calls are allowed in the very last content only."""
    if not contents:
        return [Problem(rule="not empty", where="contents", text="at least one content is required")]
    problems: list[Problem] = []
    merged = merge_sides([as_plain_value(c) for c in contents])
    for at, content in enumerate(merged):
        where = f"contents[{at}]"
        if not isinstance(content, Mapping) or content.get("role", "user") not in ("user", "model", "function"):
            role = content.get("role") if isinstance(content, Mapping) else content
            problems.append(Problem(rule="role", where=where, text=f"unknown role {role!r}"))
            continue
        parts = [as_plain_value(p) for p in content.get("parts") or ()]
        problems += _check_parts(parts, where)
        problems += _check_pairs(merged, at, where)
        if not all(is_valid_text(text) for text in collect_strings(content)):
            problems.append(Problem(rule="encoding", where=where, text="a lone surrogate cannot be sent"))
    first = merged[0]
    if isinstance(first, Mapping) and first.get("role") == "model" and _names(first, "functionCall"):
        text = "a function call must follow a user turn or function responses"
        problems.append(Problem(rule="first side", where="contents[0]", text=text))
    return problems


def merge_sides(contents: Sequence[Any]) -> list[Any]:
    """Join neighbouring contents of one side; indices in problems count the joined contents."""
    out: list[Any] = []
    for content in contents:
        fits = isinstance(content, Mapping) and isinstance(content.get("parts"), list)
        side = "model" if fits and content.get("role") == "model" else "user"
        before = out[-1] if out else None
        if fits and isinstance(before, Mapping) and before.get("_side") == side:
            out[-1] = {**before, "parts": [*before["parts"], *content["parts"]]}
        else:
            out.append({**content, "_side": side} if fits else content)
    return out


def _check_parts(parts: Sequence[Any], where: str) -> list[Problem]:
    if not parts:
        return [Problem(rule="content", where=where, text="a content needs at least one part")]
    found = []
    for part in parts:
        data = [k for k in part if k not in _BESIDE_DATA] if isinstance(part, Mapping) else []
        if len(data) != 1:
            found.append(Problem(rule="content", where=where, text=f"a part must hold one kind of data, not {data}"))
        call = find_object(part, "functionCall")
        if call is not None and not isinstance(call.get("args", {}), Mapping):
            found.append(Problem(rule="arguments", where=where, text="functionCall.args must be an object"))
        response = find_object(part, "functionResponse")
        if response is not None and not isinstance(response.get("response"), Mapping):
            found.append(Problem(rule="content", where=where, text="functionResponse.response must be an object"))
    return found


_BESIDE_DATA = (
    "thought", "thoughtSignature", "thought_signature", "videoMetadata", "video_metadata", "mediaResolution",
    "media_resolution", "mediaProcessing", "media_processing", "partMetadata", "part_metadata", "speechMetadata",
    "speech_metadata", "audioTranscription", "audio_transcription",
)  # fmt: skip
"""Fields of a part that stand beside its data."""


def _check_pairs(contents: Sequence[Any], at: int, where: str) -> list[Problem]:
    """Check that calls are answered in the next content, and that responses have a call right before."""
    if contents[at].get("role") == "model":
        calls = Counter(_names(contents[at], "functionCall"))
        if not calls or at + 1 == len(contents):
            return []
        got = Counter(_names(contents[at + 1], "functionResponse"))
        missing = sorted((calls - got).elements())
        return [Problem(rule="pairing", where=where, text=f"calls without a response: {missing}")] if missing else []
    got = Counter(_names(contents[at], "functionResponse"))
    before = contents[at - 1] if at else None
    asked = Counter(_names(before, "functionCall")) if isinstance(before, Mapping) else Counter[str]()
    extra = sorted((got - asked).elements())
    text = f"responses without a call right before: {extra}"
    return [Problem(rule="pairing", where=where, text=text)] if extra else []


def _names(content: Mapping[str, Any], name: str) -> list[str]:
    parts = [as_plain_value(p) for p in content.get("parts") or ()] if isinstance(content, Mapping) else []
    return [str(found.get("name")) for p in parts if (found := find_object(p, name)) is not None]
