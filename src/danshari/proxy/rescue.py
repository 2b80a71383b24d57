"""Recognises that a provider refused a request because the context is too long, and what it counted."""

from __future__ import annotations

import re
from dataclasses import dataclass

STATUSES = (400, 413, 422)
LARGEST = 65_536
"""Bytes of an error's body that are looked at."""
_SAYINGS = (
    r"prompt is too long(?:: *(?P<counted>[\d,]+) tokens)?",  # Anthropic, Claude on Bedrock and Vertex
    r"input length and `?max_tokens`? exceed context limit(?:: *(?P<counted>[\d,]+))?",  # Anthropic
    r"context_length_exceeded",  # OpenAI's code, many compatible servers
    r"maximum context length is [\d,]+ tokens\D{0,60}?(?P<counted>[\d,]+) tokens",  # OpenAI chat, vLLM, Azure
    r"exceeds the context window",  # OpenAI Responses
    r"exceed(?:s|ed)? (?:the )?(?:available|maximum|model's)? ?context (?:size|length|window)",  # llama.cpp, others
    r"input token count \(?(?P<counted>[\d,]+)\)? exceeds the maximum",  # Gemini
    r"request_too_large",  # Anthropic, by bytes
)
_PATTERNS = tuple(re.compile(saying, re.IGNORECASE) for saying in _SAYINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """The provider says that the context does not fit; `counted`: its own count of tokens, None if it told none."""

    counted: int | None = None


def overflow(status: int, body: bytes) -> Overflow | None:
    """Read an error; None if it is about something else."""
    if status not in STATUSES:
        return None
    text = body[:LARGEST].decode("utf-8", "replace")
    for pattern in _PATTERNS:
        if found := pattern.search(text):
            counted = found.groupdict().get("counted")
            return Overflow(counted=int(counted.replace(",", "")) if counted and counted.strip(",") else None)
    return None
