"""The texts that stand in place of originals, and functions that recognise them.

A placeholder is a JSON object with four fixed fields (compacted, tool, originalLength, message).
Where it pays, `recall` (the first 12 digits of the original's digest) and `gist` follow. A
shortened text starts with one head line in square brackets, followed by verbatim lines under their
original numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from danshari.core.items import Item
from danshari.core.text import lazy_pattern

PLACEHOLDER_FORMAT = 1
"""Format number of placeholders and head lines."""
_JSON_START = '{"compacted":true,'
JSON_NOTE_KEY = "danshari"
"""First key of shortened JSON."""
_ROWS_START = '{"danshari": {"left out": '
_HEAD_START = "[danshari kept "
_MESSAGE = "content compressed"
_EARLIER_READ = lazy_pattern(r"an earlier read \(([0-9a-f]{12})\)")
_OWN_NUMBER = lazy_pattern(r"\d{1,9}\| ")
_TOOL_NUMBER = lazy_pattern(r"\s{0,12}\d{1,9}(?:→|\t)")


def recall_id(item: Item) -> str:
    """Return the short id (12 hex digits) under which the archive finds the original."""
    return item.digest[:12]


def placeholder(item: Item, *, gist: str = "", recall: bool = True) -> str:
    """Write the JSON that stands for a result or for call arguments."""
    fields: dict[str, object] = {
        "compacted": True,
        "tool": item.name,
        "originalLength": len(item.text),
        "message": _MESSAGE,
    }
    if recall:
        fields["recall"] = recall_id(item)
    if gist:
        fields["gist"] = gist
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def render_kept_lines(
    item: Item, numbers: Sequence[int], lines: Sequence[str], *, note: str = "", total: int, every: int = 1
) -> str:
    """Render the lines that are kept of an item under a head line; `numbers` are 0-based and shown 1-based.

    A line shows its number where a run of kept lines begins and on every `every`-th line; with 0 no
    line shows one. Where the tool had numbered the lines itself, its own numbers stay.
    """
    what = f" of {item.name} output" if item.name else ""
    how = {0: "", 1: ", numbered as in the original"}.get(every, f", numbers where a run begins and on every {every}th")
    head = f"{_HEAD_START}{len(lines)} of {total} lines{what}{how}"
    head += f" ({len(item.text)} characters, archived as {recall_id(item)}){'; ' + note if note else ''}]"
    ours = not has_tool_numbers(lines)
    shown, before = [head], -2
    for number, line in zip(numbers, lines, strict=True):
        if not every:
            shown.append(line)
        elif number != before + 1 or not (number + 1) % every:
            shown.append(f"{number + 1}| {line}" if ours else line)
        else:
            shown.append(line if ours else strip_number_prefix(line))
        before = number
    return "\n".join(shown)


def has_tool_numbers(lines: Sequence[str]) -> bool:
    """Return whether more than half of the lines start with a number that a tool put there."""
    return sum(1 for line in lines if _TOOL_NUMBER.match(line)) > len(lines) / 2


def strip_number_prefix(line: str, *, ours: bool = False) -> str:
    """Return a line without the number in front of it, as file tools write it (`12→` or a tab).

    With `ours`, remove the numbers that `render_kept_lines` writes (`12| `) instead.
    """
    number = (_OWN_NUMBER if ours else _TOOL_NUMBER).match(line)
    return line[number.end() :] if number else line


def render_text_ends(item: Item, head: str, tail: str) -> str:
    """Render the beginning and the end of a text that has no lines to choose from."""
    kept = len(head) + len(tail)
    first = f"{_HEAD_START}{kept} of {len(item.text)} characters, archived as {recall_id(item)}; the beginning:]"
    middle = f"[danshari left out {len(item.text) - kept} characters here; the end:]"
    return "\n".join([first, head, middle, tail])


def render_earlier_read(item: Item) -> str:
    """Return how a head line refers to an earlier read; `earlier_read_ids` reads it back."""
    return f"an earlier read ({recall_id(item)})"


def has_kept_lines(text: str) -> bool:
    """Return whether a text of ours shows lines of its original, so that it can be shortened further."""
    return text.startswith(_HEAD_START)


def earlier_read_ids(text: str) -> list[str]:
    """Return the recall ids of earlier reads that a shortened text refers to in its head line."""
    head = text.split("\n", 1)[0]
    return _EARLIER_READ.findall(head) if head.startswith(_HEAD_START) else []


def is_compacted_text(text: str) -> bool:
    """Return whether `text` is a placeholder or a shortened text, so that no second pass edits it."""
    if text.startswith(_HEAD_START):
        return True
    if not text.startswith((_JSON_START, _ROWS_START)):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
