"""A summarizer at any OpenAI- or Anthropic-compatible endpoint, with the standard library only."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Literal

from danshari.core.summary import Reply, Request
from danshari.errors import ArgumentError, ModelError
from danshari.summarizers.base import Summarizer, as_reply

EndpointStyle = Literal["openai-chat", "openai-responses", "anthropic"]
ENDPOINT_PATHS: Mapping[str, str] = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/messages",
}
KEY_VARIABLES: Mapping[EndpointStyle, str] = {
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
"""Environment variables the command line takes keys from."""
MAX_SUMMARY_BYTES = 4_000_000
"""Bytes of an answer; more is no summary and is not read."""
_ANTHROPIC_VERSION = "2023-06-01"
"""The `anthropic-version` header (platform docs, 2026-10)."""


def endpoint(
    url: str,
    *,
    model: str,
    key: str = "",
    style: EndpointStyle = "openai-chat",
    window: int = 0,
    same: bool = False,
    seconds: float = 120.0,
    headers: Mapping[str, str] | None = None,
) -> Summarizer:
    """Return a summarizer that asks an endpoint, such as `http://localhost:8080/v1`.

    Set `same` if the endpoint serves the agent's own model: warm requests then read the agent's prompt
    cache. `window` is in tokens. `seconds` limits each read, the policy's `summary_seconds` the whole
    answer. Raises ArgumentError for a bad URL or style.
    """
    if not url.startswith(("http://", "https://")):
        raise ArgumentError(f"endpoint {url!r}: must begin with http:// or https://")
    if style not in ENDPOINT_PATHS:
        raise ArgumentError(f"style {style!r}; must be one of {', '.join(ENDPOINT_PATHS)}")
    target = url.rstrip("/") + ("" if url.rstrip("/").endswith(ENDPOINT_PATHS[style]) else ENDPOINT_PATHS[style])
    sent = {"content-type": "application/json", **_auth_headers(style, key), **(headers or {})}

    def ask(request: Request) -> Reply:
        body = build_summary_body(request, style, model)
        return as_reply(_post_json(target, body, sent, seconds))

    return Summarizer(door=ask, window=window, same=same, name=f"{model} at {url}")


def _auth_headers(style: EndpointStyle, key: str) -> dict[str, str]:
    if style == "anthropic":
        return {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}
    return {"authorization": f"Bearer {key}"} if key else {}


def build_summary_body(request: Request, style: EndpointStyle, model: str) -> dict[str, Any]:
    """Return the JSON body of a request.

    A flat request is written in the endpoint's own format, a warm one keeps the conversation's. Raises
    ModelError if a warm request is in another format than the endpoint's.
    """
    if request.warm and request.format != style:
        raise ModelError(f"a warm request is {request.format}; the endpoint takes {style}")
    where = "input" if style == "openai-responses" else "messages"
    model = request.model or model
    if not request.warm:
        turns = [{"role": "user", "content": "\n\n".join(_message_texts(request.messages))}]
        return {
            "model": model,
            _limit_field(style, model): request.most,
            where: turns,
            **_effort_fields(style, request.effort),
        }
    body = {"model": model, **request.body, where: request.messages, **_effort_fields(style, request.effort)}
    limit = next((k for k in OUTPUT_LIMIT_FIELDS if k in body), _limit_field(style, model))
    if limit not in body or "thinking" not in body:  # a thinking budget must stay below the limit it came with
        body[limit] = request.most
    if request.tools:
        body.setdefault("tools", request.tools)
    if request.system and style != "openai-chat":  # there it stands among the messages
        body.setdefault("instructions" if style == "openai-responses" else "system", request.system)
    body.pop("stream", None)
    return body


OUTPUT_LIMIT_FIELDS = ("max_output_tokens", "max_completion_tokens", "max_tokens")
_NO_MAX_TOKENS = re.compile(r"(?:gpt-5|o\d)")
"""OpenAI models that refuse `max_tokens` (API reference, 2026-10)."""


def _limit_field(style: EndpointStyle, model: str) -> str:
    if style == "openai-responses":
        return "max_output_tokens"
    return "max_completion_tokens" if style == "openai-chat" and _NO_MAX_TOKENS.match(model) else "max_tokens"


def _effort_fields(style: EndpointStyle, effort: str) -> dict[str, Any]:
    if not effort:
        return {}
    spelled: dict[EndpointStyle, dict[str, Any]] = {
        "openai-chat": {"reasoning_effort": effort},
        "openai-responses": {"reasoning": {"effort": effort}},
        "anthropic": {"output_config": {"effort": effort}},
    }
    return spelled[style]


def _message_texts(messages: list[Any]) -> list[str]:
    found = []
    for message in messages:
        content = message.get("content")
        found += [content] if isinstance(content, str) else [str(p.get("text", "")) for p in content or ()]
    return found


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
