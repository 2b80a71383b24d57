"""Changed JSON written into the original text: what did not change keeps its bytes, spelling and order.

A request is never serialised anew as a whole. `rendered` walks the original text beside the old and the new value and
copies every span whose value stands; only what differs is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from json.scanner import make_scanner
from typing import Any

Span = tuple[int, int]
"""First character of a value, and the one after its last."""
_SPACE = re.compile(r"[ \t\n\r]*")
scan: Callable[[str, int], tuple[Any, int]] = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]
"""(text, place) → (value, place after it); raises StopIteration where no value begins."""


def after_space(text: str, at: int) -> int:
    """Give the first place at or after `at` that is no white space."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def members(text: str, at: int) -> Iterator[tuple[str, Span, Span, Any]]:
    """Give an object's members from place `at` on: key, the key's span, the value's span, the value.

    Raises ValueError where the text is no JSON.
    """
    at = after_space(text, at)
    while text[at : at + 1] != "}":
        key, key_span, start = member(text, at)
        value, end = value_at(text, start)
        yield key, key_span, (start, end), value
        at = after_comma(text, end, "}")


def member(text: str, at: int) -> tuple[str, Span, int]:
    """Read a member's key: the key, its span, and where its value begins."""
    key, end = value_at(text, at)
    colon = after_space(text, end)
    if not isinstance(key, str) or text[colon : colon + 1] != ":":
        raise ValueError(f"no member at character {at}")
    return key, (at, end), after_space(text, colon + 1)


def elements(text: str, at: int) -> Iterator[tuple[Span, Any]]:
    """Give an array's elements from place `at` on: span and value. Raises ValueError where the text is no JSON."""
    at = after_space(text, at)
    while text[at : at + 1] != "]":
        value, end = value_at(text, at)
        yield (at, end), value
        at = after_comma(text, end, "]")


def after_comma(text: str, at: int, close: str) -> int:
    """Give the place of the next member or element, or of the closing bracket."""
    at = after_space(text, at)
    if text[at : at + 1] == ",":
        at = after_space(text, at + 1)
        if text[at : at + 1] == close:
            raise ValueError(f"a comma before the end at character {at}")
    elif text[at : at + 1] != close:
        raise ValueError(f"no comma at character {at}")
    return at


def value_at(text: str, at: int) -> tuple[Any, int]:
    """Read the value at a place, and where it ends; raises ValueError if none begins there."""
    try:
        return scan(text, at)
    except StopIteration:
        raise ValueError(f"no value at character {at}") from None


def dumped(value: Any) -> str:
    """Write a value as providers' own SDKs do: compact, characters as they are; half surrogates escaped."""
    made = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return made if made.isascii() or _encodes(made) else json.dumps(value, separators=(",", ":"))


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def rendered(text: str, span: Span, old: Any, new: Any) -> str:
    """Write `new` where `text[span]` says `old`; spans whose value stands are copied."""
    if new is old or (type(new) is type(old) and new == old):
        return text[span[0] : span[1]]
    if isinstance(old, dict) and isinstance(new, Mapping):
        return _object(text, span, new)
    if isinstance(old, list) and isinstance(new, list | tuple):
        places = [place for place, _ in elements(text, span[0] + 1)]
        return array(text, span, places, old, new).text
    return dumped(new)


def _object(text: str, span: Span, new: Mapping[str, Any]) -> str:
    found = list(members(text, span[0] + 1))
    known = {key for key, *_ in found}
    if len(known) < len(found):  # a key stands twice: which one counts is not ours to say
        return dumped(dict(new))
    parts, gaps, at = [], [], span[0] + 1
    for key, key_span, value_span, value in found:
        if key in new:
            gaps.append(text[at : key_span[0]].replace(",", "", 1))
            parts.append(text[key_span[0] : value_span[0]] + rendered(text, value_span, value, new[key]))
        at = value_span[1]
    fresh = [f"{dumped(key)}:{dumped(value)}" for key, value in new.items() if key not in known]
    return _joined("{", gaps, [*parts, *fresh], text[at : span[1]])


Write = Callable[[str, Span, Any, Any], str]


@dataclass(slots=True, kw_only=True)
class Written:
    """An array as it was written last: what it began with need not be written again."""

    new: Sequence[Any]
    stands: list[int]
    """For every element the old one it stands for as it is, else -1."""
    ends: list[int]
    """Where each element ends in the text."""
    text: str

    def kept(self, old: Sequence[Any], new: Sequence[Any]) -> int:
        """Count the elements of `new` that begin it as they began the last one, up to one that stands as it is."""
        count = 0
        for a, b in zip(self.new, new, strict=False):
            if a is not b:
                break
            count += 1
        while count and not (0 <= (at := self.stands[count - 1]) < len(old) and old[at] is new[count - 1]):
            count -= 1
        return count


def array(
    text: str,
    span: Span,
    places: Sequence[Span],
    old: Sequence[Any],
    new: Sequence[Any],
    *,
    write: Write | None = None,
    last: Written | None = None,
) -> Written:
    """Write an array whose elements stand at `places`; `write` gives the text of one changed element.

    `last` is what was written for an earlier text that began alike.
    """
    count = last.kept(old, new) if last is not None else 0
    made = Written(new=new, stands=[], ends=[], text="")
    parts, size, begun = ["["], 1, 0
    if last is not None and count:
        made.stands, made.ends = last.stands[:count], last.ends[:count]
        size, begun = made.ends[-1], made.stands[-1] + 1
        parts = [last.text[:size]]
    for at, value in zip(aligned(old[begun:], new[count:]), new[count:], strict=True):
        place = at + begun if at >= 0 else -1
        parts.append(_element(text, span, places, old, place, value, write or rendered, first=not made.ends))
        size += len(parts[-1])
        made.stands.append(place if place >= 0 and old[place] is value else -1)
        made.ends.append(size)
    parts.append(text[places[-1][1] if places else span[0] + 1 : span[1]])
    made.text = "".join(parts)
    return made


def _element(
    text: str, span: Span, places: Sequence[Span], old: Sequence[Any], at: int, value: Any, write: Write, *, first: bool
) -> str:
    """Write one element with what stands before it; `at` is the old one it stands for, or -1."""
    comma = "" if first else ","
    if at < 0:
        return comma + dumped(value)
    gap = text[places[at - 1][1] if at else span[0] + 1 : places[at][0]].replace(",", "", 1)
    shown = text[places[at][0] : places[at][1]] if value is old[at] else write(text, places[at], old[at], value)
    return comma + gap + shown


def _joined(head: str, gaps: Sequence[str], parts: Sequence[str], tail: str) -> str:
    """Join parts, each with the white space that stood before it."""
    spaced = [gaps[n] + part if n < len(gaps) else part for n, part in enumerate(parts)]
    return head + ",".join(spaced) + tail


def aligned(old: Sequence[Any], new: Sequence[Any]) -> list[int]:
    """Give for every new element the old one it stands for; -1: none. The same object stands for itself.

    Between two that stand, changed elements pair up in order while their role and type agree.
    """
    where = {id(value): at for at, value in enumerate(old) if isinstance(value, dict | list)}
    found = [where.get(id(value), -1) for value in new]
    last = -1
    for n, at in enumerate(found):  # an object used twice, or moved, stands for itself once
        if at >= 0:
            found[n] = at if at > last else -1
            last = max(last, at)
    bounds = [-1, *(n for n, at in enumerate(found) if at >= 0), len(new)]
    for left, right in pairwise(bounds):
        at = found[left] if left >= 0 else -1
        stop = found[right] if right < len(new) else len(old)
        for n in range(left + 1, right):
            after = next((k for k in range(at + 1, stop) if _alike(old[k], new[n])), -1)
            if after >= 0:
                found[n] = at = after
    return found


def _alike(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, Mapping):
        return all(old.get(k) == new.get(k) for k in ("role", "type", "id", "call_id", "tool_use_id", "tool_call_id"))
    return type(old) is type(new) and old == new
