"""Masks keys, tokens and passwords in what danshari writes or sends to a summarizer; never stops anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from danshari import data
from danshari.core.handover import Handover, Point

Mask = Callable[[str], str]
"""Gives a text with its secrets masked."""
_KEY, _KEY_LINE = "PRIVATE KEY-----", "[masked: private key]"
_PEM = re.compile(r"PRIVATE KEY-----\s*\n((?:[A-Za-z0-9+/=]{16,}\s*\n?)+)")
_SHORTEST = 12
"""Characters below which no text is looked at: no known key is shorter."""


def masked(text: str) -> str:
    """Put `[masked: kind]` in place of every secret of `data/secrets.toml`."""
    if len(text) < _SHORTEST:
        return text
    for name, pattern in data.secrets():
        text = pattern.sub(partial(_mark, name), text)
    return text


def masked_document(document: Handover, sources: Iterable[str]) -> Handover:
    """Mask the secrets of every point of a hand-over; `sources` are the texts it was made of.

    A line of a private key looks like any other once it stands alone, so the keys are looked up in the sources.
    """
    bodies = {
        line.strip() for text in sources if _KEY in text for block in _PEM.findall(text) for line in block.split("\n")
    }
    fields = {name: tuple(_masked(p, bodies - {""}) for p in points) for name, points in document.fields.items()}
    return replace(document, fields=fields)


def _masked(point: Point, bodies: set[str]) -> Point:
    lines = [_KEY_LINE if line.strip() in bodies else line for line in point.text.split("\n")] if bodies else []
    return replace(point, text=masked("\n".join(lines) if lines else point.text))


def _mark(name: str, found: re.Match[str]) -> str:
    mark = f"[masked: {name}]"
    whole = found.group()
    if "secret" not in found.re.groupindex:
        return mark
    secret = found.group("secret")
    if secret.startswith("[masked:"):
        return whole
    start, end = found.start("secret") - found.start(), found.end("secret") - found.start()
    return whole[:start] + mark + whole[end:]
