"""Error responses of the proxy's own, in the format of the client's provider."""

from __future__ import annotations

import json
from typing import Any

_ANTHROPIC_ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 413: "request_too_large",
              502: "api_error", 503: "overloaded_error", 504: "timeout_error"}  # fmt: skip
_OPENAI_ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 413: "invalid_request_error"}


def render_error(format_name: str, status: int, text: str) -> bytes:
    """Render an error body; `text` should say what is wrong, where, and what to do."""
    said = f"danshari: {text}"
    if format_name == "anthropic":
        body: dict[str, Any] = {
            "type": "error",
            "error": {"type": _ANTHROPIC_ERROR_TYPES.get(status, "api_error"), "message": said},
        }
    else:
        kind = _OPENAI_ERROR_TYPES.get(status, "server_error")
        body = {"error": {"message": said, "type": kind, "param": None, "code": None}}
    return json.dumps(body).encode()
