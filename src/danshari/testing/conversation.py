"""Build conversations from scripted turns, in any format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from danshari.formats import find_format
from danshari.formats.script import Call, Turn


def conversation(format_name: str, request: str, turns: Iterable[Turn], *, system: str = "") -> list[Any]:
    """Build messages in the named format from a system prompt, a first request and scripted turns."""
    builder = find_format(format_name).script.builder()
    if system:
        builder.system(system)
    builder.user(request)
    for number, turn in enumerate(turns):
        calls = [
            c
            if c.id
            else Call(
                name=c.name, arguments=c.arguments, result=c.result, failed=c.failed, id=f"call_{number:04d}_{place}"
            )
            for place, c in enumerate(turn.calls)
        ]
        builder.turn(turn, calls)
        if turn.user:
            builder.user(turn.user)
    return builder.messages
