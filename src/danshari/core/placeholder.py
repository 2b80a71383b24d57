"""The texts danshari puts in place of originals, and how to recognise them again.

A placeholder is a JSON object with the seed's four fields (compacted, tool, originalLength, message); where it pays,
`recall` (the first 12 digits of the original's digest) and `gist` follow. A squeezed text starts with one head line
in square brackets and goes on with verbatim lines under their original numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from danshari.core.items import Item

FORMAT = 1
"""Format number of placeholders and head lines."""
_JSON_START = '{"compacted":true,'
JSON_HEAD = "danshari"
"""First key of shortened JSON."""
_ROWS_START = '{"danshari": {"left out": '
_HEAD_START = "[danshari kept "
_MESSAGE = "content compressed"
_LEANED = re.compile(r"an earlier read \(([0-9a-f]{12})\)")
_OURS = re.compile(r"\d{1,9}\| ")
_NUMBERED = re.compile(r"\s{0,12}\d{1,9}(?:→|\t)")


def recall_id(item: Item) -> str:
    """Give the short id under which the archive finds the original."""
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


def squeezed(
    item: Item, numbers: Sequence[int], lines: Sequence[str], *, note: str = "", total: int, every: int = 1
) -> str:
    """Write kept lines under a head line; `numbers` are 0-based, shown 1-based.

    A line shows its number where a run of kept lines begins and on every `every`-th line; 0: no line does. Where the
    tool had numbered the lines itself, its own numbers are the ones that stay.
    """
    what = f" of {item.name} output" if item.name else ""
    how = {0: "", 1: ", numbered as in the original"}.get(every, f", numbers where a run begins and on every {every}th")
    head = f"{_HEAD_START}{len(lines)} of {total} lines{what}{how}"
    head += f" ({len(item.text)} characters, archived as {recall_id(item)}){'; ' + note if note else ''}]"
    ours = not tool_numbered(lines)
    shown, before = [head], -2
    for number, line in zip(numbers, lines, strict=True):
        if not every:
            shown.append(line)
        elif number != before + 1 or not (number + 1) % every:
            shown.append(f"{number + 1}| {line}" if ours else line)
        else:
            shown.append(line if ours else unnumbered(line))
        before = number
    return "\n".join(shown)


def tool_numbered(lines: Sequence[str]) -> bool:
    """Say whether a tool put a number before most of the lines."""
    return sum(1 for line in lines if _NUMBERED.match(line)) > len(lines) / 2


def unnumbered(line: str, *, ours: bool = False) -> str:
    """Give a line without the number that a tool, or a squeezed text of `ours`, put before it."""
    number = (_OURS if ours else _NUMBERED).match(line)
    return line[number.end() :] if number else line


def clipped(item: Item, head: str, tail: str) -> str:
    """Write the two ends of a text that has no lines to choose from."""
    kept = len(head) + len(tail)
    first = f"{_HEAD_START}{kept} of {len(item.text)} characters, archived as {recall_id(item)}; the beginning:]"
    middle = f"[danshari left out {len(item.text) - kept} characters here; the end:]"
    return "\n".join([first, head, middle, tail])


def leaned(text: str) -> list[str]:
    """Give the ids of the earlier reads to which a text of ours leaves lines, by its head line."""
    head = text.split("\n", 1)[0]
    return _LEANED.findall(head) if head.startswith(_HEAD_START) else []


def is_ours(text: str) -> bool:
    """Say whether `text` is a placeholder or a squeezed text, so that a second pass leaves it alone."""
    if text.startswith(_HEAD_START):
        return True
    if not text.startswith((_JSON_START, _ROWS_START)):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
