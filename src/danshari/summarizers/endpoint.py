"""A summarizer at any endpoint that speaks a known format, with the standard library only."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from danshari.core.summary import Reply, Request
from danshari.errors import ArgumentError, ModelError
from danshari.formats import FORMATS
from danshari.summarizers.base import Summarizer, as_reply

MAX_SUMMARY_BYTES = 4_000_000
"""Bytes of an answer; more is no summary and is not read."""


def endpoint(
    url: str,
    *,
    model: str,
    key: str = "",
    format: str = "openai-chat",  # noqa: A002
    window: int = 0,
    same_model: bool = False,
    seconds: float = 120.0,
    headers: Mapping[str, str] | None = None,
) -> Summarizer:
    """Return a summarizer that asks an endpoint, such as `http://localhost:8080/v1`.

    `format` names the format that it speaks. Set `same_model` if it serves the agent's own model: it is then
    asked with warm requests, which are the agent's own request with the instruction last and so read the
    agent's prompt cache. `window` is in tokens. `seconds` limits each wait for data from the socket, the
    policy's `summary.seconds` the whole answer. Raises ArgumentError for a bad URL or format.
    """
    parts = split_url(url)
    if format not in FORMATS:
        raise ArgumentError(f"format {format!r}; must be one of {', '.join(FORMATS)}")
    api = FORMATS[format].api
    base = parts.path.rstrip("/")
    sent = {"content-type": "application/json", **api.auth_headers(key), **(headers or {})}

    def ask(request: Request) -> Reply:
        path = base if api.matches_path(base) else base + api.request_path(request.model or model)
        return as_reply(_post_json(parts._replace(path=path).geturl(), api.summary_body(request, model), sent, seconds))

    return Summarizer(function=ask, window=window, same_model=same_model, name=f"{model} at {url}")


def split_url(url: str) -> SplitResult:
    """Split the URL of an endpoint; raises ArgumentError if it is none."""
    if not url.startswith(("http://", "https://")):
        raise ArgumentError(f"endpoint {url!r}: must begin with http:// or https://")
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ArgumentError(f"endpoint {url!r}: {error}") from None


def _post_json(url: str, body: Mapping[str, Any], headers: Mapping[str, str], seconds: float) -> Any:
    """Post a JSON body and return the parsed answer. Raises ModelError for any failure."""
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    request = urllib.request.Request(url, data=data, headers=dict(headers), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            read = answer.read(MAX_SUMMARY_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise ModelError(f"{url} answered {error.code}: {error.read(400).decode('utf-8', 'replace')}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{url}: {type(error).__name__}: {error}") from None
    if len(read) > MAX_SUMMARY_BYTES:
        raise ModelError(f"{url} answered more than {MAX_SUMMARY_BYTES:,} bytes")
    try:
        return json.loads(read)
    except ValueError:
        raise ModelError(f"{url} answered no JSON: {read[:200]!r}") from None
