"""Recognise a provider's error that the context is too long, and read the token counts in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

OVERFLOW_STATUSES = (400, 413, 422)
MAX_ERROR_BYTES = 65_536
"""Bytes of an error's body that are looked at."""
_OVERFLOW_MESSAGES = (
    r"prompt is too long(?:: *(?P<counted>[\d,]+) tokens(?: > (?P<limit>[\d,]+))?)?",  # Anthropic, Bedrock, Vertex
    r"input length and `?max_tokens`? exceed context limit(?:: *(?P<counted>[\d,]+) \+ [\d,]+ > (?P<limit>[\d,]+))?",
    r"maximum context length is (?P<limit>[\d,]+) tokens\D{0,80}?(?P<counted>[\d,]+) tokens",  # OpenAI, vLLM, Azure
    r"input token count \(?(?P<counted>[\d,]+)\)? exceeds the maximum\D{0,60}(?P<limit>[\d,]+)",  # Gemini
    r"context_length_exceeded",  # OpenAI's code, many compatible servers
    r"exceeds the context window",  # OpenAI Responses
    r"exceed(?:s|ed)? (?:the )?(?:available|maximum|model's)? ?context (?:size|length|window)",  # llama.cpp, others
    r"request_too_large",  # Anthropic, by bytes
)
_OVERFLOW_PATTERNS = tuple(re.compile(saying, re.IGNORECASE) for saying in _OVERFLOW_MESSAGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOverflow:
    """A provider's error that the context is too long.

    Its token count of the request and its limit; None where the error states none.
    """

    counted: int | None = None
    limit: int | None = None


def parse_overflow(status: int, body: bytes) -> ContextOverflow | None:
    """Parse an error response; return None if it is not about the context's length."""
    if status not in OVERFLOW_STATUSES:
        return None
    text = body[:MAX_ERROR_BYTES].decode("utf-8", "replace")
    for pattern in _OVERFLOW_PATTERNS:
        if found := pattern.search(text):
            told = {name: int(n.replace(",", "")) for name, n in found.groupdict().items() if n and n.strip(",")}
            return ContextOverflow(counted=told.get("counted"), limit=told.get("limit"))
    return None
