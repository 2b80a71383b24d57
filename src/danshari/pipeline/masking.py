"""Masking of keys, tokens and passwords in stored text and in requests to a summarizer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from danshari import data
from danshari.core.handover import Handover, Point
from danshari.core.text import lazy_pattern

Mask = Callable[[str], str]
"""Gives a text with its secrets masked."""
_KEY, _KEY_LINE = "PRIVATE KEY-----", "[masked: private key]"
_PEM = lazy_pattern(r"PRIVATE KEY-----\s*\n((?:[A-Za-z0-9+/=]{16,}\s*\n?)+)")
_MIN_SECRET_LENGTH = 12
"""Characters below which no text is looked at: no known key is shorter."""


def mask_secrets(text: str) -> str:
    """Replace every secret that `data/secrets.toml` describes by `[masked: kind]`."""
    if len(text) < _MIN_SECRET_LENGTH:
        return text
    for name, pattern in data.load_secrets():
        text = pattern.sub(partial(_mask_match, name), text)
    return text


def mask_document(document: Handover, sources: Iterable[str]) -> Handover:
    """Mask the secrets in every point of a hand-over. `sources` are the texts it was made from.

    A single line of a private key cannot be recognised alone, so the lines of all keys are collected from
    the sources.
    """
    bodies = {
        line.strip() for text in sources if _KEY in text for block in _PEM.findall(text) for line in block.split("\n")
    }
    fields = {name: tuple(_mask_point(p, bodies - {""}) for p in points) for name, points in document.fields.items()}
    return replace(document, fields=fields)


def _mask_point(point: Point, bodies: set[str]) -> Point:
    """Mask the secrets of one point. `bodies` are the lines of private keys."""
    lines = [_KEY_LINE if line.strip() in bodies else line for line in point.text.split("\n")] if bodies else []
    return replace(point, text=mask_secrets("\n".join(lines) if lines else point.text))


def _mask_match(name: str, found: re.Match[str]) -> str:
    """Return the mask for one match: only the group `secret` is replaced if the pattern has one."""
    mark = f"[masked: {name}]"
    whole = found.group()
    if "secret" not in found.re.groupindex:
        return mark
    secret = found.group("secret")
    if secret.startswith("[masked:"):
        return whole
    start, end = found.start("secret") - found.start(), found.end("secret") - found.start()
    return whole[:start] + mark + whole[end:]
