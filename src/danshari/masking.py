"""Masks keys, tokens and passwords in what danshari writes or sends to a summarizer; never stops anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from danshari import data
from danshari.core.handover import Handover

Mask = Callable[[str], str]
"""Gives a text with its secrets masked."""
_SHORTEST = 12
"""Characters below which no text is looked at: no known key is shorter."""


def masked(text: str) -> str:
    """Put `[masked: kind]` in place of every secret of `data/secrets.toml`."""
    if len(text) < _SHORTEST:
        return text
    for name, pattern in data.secrets():
        text = pattern.sub(partial(_mark, name), text)
    return text


def masked_document(document: Handover) -> Handover:
    """Mask the secrets of every point of a hand-over."""
    fields = {name: tuple(replace(p, text=masked(p.text)) for p in points) for name, points in document.fields.items()}
    return replace(document, fields=fields)


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
