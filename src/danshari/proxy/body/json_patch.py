"""Write changes into JSON text so that unchanged parts keep their bytes, spelling and order.

A request is never serialised as a whole. `splice_value` compares the old and the new value along the
original text, copies each span whose value is unchanged, and serialises only what differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from json.scanner import make_scanner
from typing import Any

from danshari.formats.sse import dump_compact_json

TextSpan = tuple[int, int]
"""First character of a value, and the one after its last."""
_SPACE = re.compile(r"[ \t\n\r]*")
scan_value: Callable[[str, int], tuple[Any, int]] = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]
"""(text, place) → (value, place after it); raises StopIteration where no value begins."""


def skip_space(text: str, at: int) -> int:
    """Return the first position at or after `at` that is not white space."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def iterate_members(text: str, at: int) -> Iterator[tuple[str, TextSpan, TextSpan, Any]]:
    """Yield an object's members from position `at`: key, key span, value span, value.

    Raises ValueError where the text is not JSON.
    """
    at = skip_space(text, at)
    while text[at : at + 1] != "}":
        key, key_span, start = read_member_key(text, at)
        value, end = read_value(text, start)
        yield key, key_span, (start, end), value
        at = skip_comma(text, end, "}")


def read_member_key(text: str, at: int) -> tuple[str, TextSpan, int]:
    """Read a member's key; return the key, its span and the position of its value."""
    key, end = read_value(text, at)
    colon = skip_space(text, end)
    if not isinstance(key, str) or text[colon : colon + 1] != ":":
        raise ValueError(f"no member at character {at}")
    return key, (at, end), skip_space(text, colon + 1)


def iterate_elements(text: str, at: int) -> Iterator[tuple[TextSpan, Any]]:
    """Yield an array's elements from position `at`: span and value.

    Raises ValueError where the text is not JSON.
    """
    at = skip_space(text, at)
    while text[at : at + 1] != "]":
        value, end = read_value(text, at)
        yield (at, end), value
        at = skip_comma(text, end, "]")


def skip_comma(text: str, at: int, close: str) -> int:
    """Return the position of the next member or element, or of the closing bracket `close`.

    Raises ValueError where a comma is missing or superfluous.
    """
    at = skip_space(text, at)
    if text[at : at + 1] == ",":
        at = skip_space(text, at + 1)
        if text[at : at + 1] == close:
            raise ValueError(f"a comma before the end at character {at}")
    elif text[at : at + 1] != close:
        raise ValueError(f"no comma at character {at}")
    return at


def read_value(text: str, at: int) -> tuple[Any, int]:
    """Read the value at a position; return it and where it ends. Raises ValueError if none begins there."""
    try:
        return scan_value(text, at)
    except StopIteration:
        raise ValueError(f"no value at character {at}") from None


def splice_value(text: str, span: TextSpan, old: Any, new: Any) -> str:
    """Return the text of `new`, given that `text[span]` holds `old`; unchanged parts are copied."""
    if new is old or (type(new) is type(old) and new == old):
        return text[span[0] : span[1]]
    if isinstance(old, dict) and isinstance(new, Mapping):
        return _splice_object(text, span, new)
    if isinstance(old, list) and isinstance(new, list | tuple):
        places = [place for place, _ in iterate_elements(text, span[0] + 1)]
        return splice_array(text, span, places, old, new).text
    return dump_compact_json(new)


def _splice_object(text: str, span: TextSpan, new: Mapping[str, Any]) -> str:
    """Return the text of a changed object: unchanged members are copied, new ones appended.

    An object with a duplicate key is serialised as a whole.
    """
    found = list(iterate_members(text, span[0] + 1))
    known = {key for key, *_ in found}
    if len(known) < len(found):  # a key stands twice: which one counts is not ours to say
        return dump_compact_json(dict(new))
    parts, gaps, at = [], [], span[0] + 1
    for key, key_span, value_span, value in found:
        if key in new:
            gaps.append(text[at : key_span[0]].replace(",", "", 1))
            parts.append(text[key_span[0] : value_span[0]] + splice_value(text, value_span, value, new[key]))
        at = value_span[1]
    fresh = [f"{dump_compact_json(key)}:{dump_compact_json(value)}" for key, value in new.items() if key not in known]
    return _join_parts("{", gaps, [*parts, *fresh], text[at : span[1]])


WriteElement = Callable[[str, TextSpan, Any, Any], str]


@dataclass(slots=True, kw_only=True)
class SplicedArray:
    """The text written for an array of messages, whose unchanged beginning the next write can reuse."""

    new: Sequence[Any]
    stands: list[int]
    """For every element the old one it stands for as it is, else -1."""
    ends: list[int]
    """Where each element ends in the text."""
    text: str

    def count_reusable(self, old: Sequence[Any], new: Sequence[Any]) -> int:
        """Count the leading elements of `new` whose text can be reused.

        They must be the same objects as last time, and the last of them an unchanged original.
        """
        count = 0
        for a, b in zip(self.new, new, strict=False):
            if a is not b:
                break
            count += 1
        while count and not (0 <= (at := self.stands[count - 1]) < len(old) and old[at] is new[count - 1]):
            count -= 1
        return count


def splice_array(
    text: str,
    span: TextSpan,
    places: Sequence[TextSpan],
    old: Sequence[Any],
    new: Sequence[Any],
    *,
    write: WriteElement | None = None,
    last: SplicedArray | None = None,
) -> SplicedArray:
    """Return the text of a changed array whose old elements are at `places`.

    `write` returns the text of one changed element. `last` is the result for an earlier text with the
    same beginning.
    """
    count = last.count_reusable(old, new) if last is not None else 0
    made = SplicedArray(new=new, stands=[], ends=[], text="")
    parts, size, begun = ["["], 1, 0
    if last is not None and count:
        made.stands, made.ends = last.stands[:count], last.ends[:count]
        size, begun = made.ends[-1], made.stands[-1] + 1
        parts = [last.text[:size]]
    for at, value in zip(align_elements(old[begun:], new[count:]), new[count:], strict=True):
        place = at + begun if at >= 0 else -1
        parts.append(_splice_element(text, span, places, old, place, value, write or splice_value, first=not made.ends))
        size += len(parts[-1])
        made.stands.append(place if place >= 0 and old[place] is value else -1)
        made.ends.append(size)
    parts.append(text[places[-1][1] if places else span[0] + 1 : span[1]])
    made.text = "".join(parts)
    return made


def _splice_element(
    text: str,
    span: TextSpan,
    places: Sequence[TextSpan],
    old: Sequence[Any],
    at: int,
    value: Any,
    write: WriteElement,
    *,
    first: bool,
) -> str:
    """Return an element's text with its leading comma and space.

    `at` is the index of the old element that it replaces, or -1.
    """
    comma = "" if first else ","
    if at < 0:
        return comma + dump_compact_json(value)
    gap = text[places[at - 1][1] if at else span[0] + 1 : places[at][0]].replace(",", "", 1)
    shown = text[places[at][0] : places[at][1]] if value is old[at] else write(text, places[at], old[at], value)
    return comma + gap + shown


def _join_parts(head: str, gaps: Sequence[str], parts: Sequence[str], tail: str) -> str:
    """Join members with commas, each after the white space that preceded it."""
    spaced = [gaps[n] + part if n < len(gaps) else part for n, part in enumerate(parts)]
    return head + ",".join(spaced) + tail


def align_elements(old: Sequence[Any], new: Sequence[Any]) -> list[int]:
    """Return, per new element, the index of the old element it replaces, or -1.

    Identical objects match first. Between two such matches, changed elements pair up in order if role,
    type and ids agree.
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
            after = next((k for k in range(at + 1, stop) if _is_counterpart(old[k], new[n])), -1)
            if after >= 0:
                found[n] = at = after
    return found


def _is_counterpart(old: Any, new: Any) -> bool:
    """Return whether a new element may be a changed version of an old one: same role, type and ids."""
    if isinstance(old, dict) and isinstance(new, Mapping):
        return all(old.get(k) == new.get(k) for k in ("role", "type", "id", "call_id", "tool_use_id", "tool_call_id"))
    return type(old) is type(new) and old == new
