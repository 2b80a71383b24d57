"""Recognises that a provider refused a request because the context is too long, and what it counted."""

from __future__ import annotations

import re
from dataclasses import dataclass

STATUSES = (400, 413, 422)
LARGEST = 65_536
"""Bytes of an error's body that are looked at."""
_SAYINGS = (
    r"prompt is too long(?:: *(?P<counted>[\d,]+) tokens(?: > (?P<limit>[\d,]+))?)?",  # Anthropic, Bedrock, Vertex
    r"input length and `?max_tokens`? exceed context limit(?:: *(?P<counted>[\d,]+) \+ [\d,]+ > (?P<limit>[\d,]+))?",
    r"maximum context length is (?P<limit>[\d,]+) tokens\D{0,80}?(?P<counted>[\d,]+) tokens",  # OpenAI, vLLM, Azure
    r"input token count \(?(?P<counted>[\d,]+)\)? exceeds the maximum\D{0,60}(?P<limit>[\d,]+)",  # Gemini
    r"context_length_exceeded",  # OpenAI's code, many compatible servers
    r"exceeds the context window",  # OpenAI Responses
    r"exceed(?:s|ed)? (?:the )?(?:available|maximum|model's)? ?context (?:size|length|window)",  # llama.cpp, others
    r"request_too_large",  # Anthropic, by bytes
)
_PATTERNS = tuple(re.compile(saying, re.IGNORECASE) for saying in _SAYINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """The provider says that the context does not fit; its own count and limit in tokens, None where it told none."""

    counted: int | None = None
    limit: int | None = None


def overflow(status: int, body: bytes) -> Overflow | None:
    """Read an error; None if it is about something else."""
    if status not in STATUSES:
        return None
    text = body[:LARGEST].decode("utf-8", "replace")
    for pattern in _PATTERNS:
        if found := pattern.search(text):
            told = {name: int(n.replace(",", "")) for name, n in found.groupdict().items() if n and n.strip(",")}
            return Overflow(counted=told.get("counted"), limit=told.get("limit"))
    return None
