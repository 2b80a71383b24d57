"""A summarizer behind any OpenAI- or Anthropic-compatible endpoint; standard library only."""

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

Style = Literal["openai-chat", "openai-responses", "anthropic"]
PATHS: Mapping[str, str] = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/messages",
}
KEYS: Mapping[Style, str] = {
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
"""Environment variables the command line takes keys from."""
LARGEST = 4_000_000
"""Bytes of an answer; more is no summary and is not read."""
_VERSION = "2023-06-01"
"""The `anthropic-version` header (platform docs, 2026-10)."""


def endpoint(
    url: str,
    *,
    model: str,
    key: str = "",
    style: Style = "openai-chat",
    window: int = 0,
    same: bool = False,
    seconds: float = 120.0,
    headers: Mapping[str, str] | None = None,
) -> Summarizer:
    """Make a summarizer of an endpoint, such as `http://localhost:8080/v1`.

    `same` says that it serves the agent's own model, so that warm requests read the agent's prompt cache. `seconds`
    bounds each read; the whole answer is bounded by the policy's `summary_seconds`. Raises ArgumentError for a URL
    that is none.
    """
    if not url.startswith(("http://", "https://")):
        raise ArgumentError(f"endpoint {url!r}: must begin with http:// or https://")
    if style not in PATHS:
        raise ArgumentError(f"style {style!r}; must be one of {', '.join(PATHS)}")
    target = url.rstrip("/") + ("" if url.rstrip("/").endswith(PATHS[style]) else PATHS[style])
    sent = {"content-type": "application/json", **_authority(style, key), **(headers or {})}

    def ask(request: Request) -> Reply:
        body = body_of(request, style, model)
        return as_reply(_posted(target, body, sent, seconds))

    return Summarizer(door=ask, window=window, same=same, name=f"{model} at {url}")


def _authority(style: Style, key: str) -> dict[str, str]:
    if style == "anthropic":
        return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}
    return {"authorization": f"Bearer {key}"} if key else {}


def body_of(request: Request, style: Style, model: str) -> dict[str, Any]:
    """Write the request's body; a flat one in the endpoint's own format, whatever the conversation's."""
    if request.warm and request.format != style:
        raise ModelError(f"a warm request is {request.format}; the endpoint takes {style}")
    where = "input" if style == "openai-responses" else "messages"
    model = request.model or model
    if not request.warm:
        turns = [{"role": "user", "content": "\n\n".join(_texts(request.messages))}]
        return {"model": model, _limit(style, model): request.most, where: turns, **_effort(style, request.effort)}
    body = {"model": model, **request.body, where: request.messages, **_effort(style, request.effort)}
    limit = next((k for k in LIMITS if k in body), _limit(style, model))
    if limit not in body or "thinking" not in body:  # a thinking budget must stay below the limit it came with
        body[limit] = request.most
    if request.tools:
        body.setdefault("tools", request.tools)
    if request.system and style != "openai-chat":  # there it stands among the messages
        body.setdefault("instructions" if style == "openai-responses" else "system", request.system)
    body.pop("stream", None)
    return body


LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")
_NEWER = re.compile(r"(?:gpt-5|o\d)")
"""OpenAI models that refuse `max_tokens` (API reference, 2026-10)."""


def _limit(style: Style, model: str) -> str:
    if style == "openai-responses":
        return "max_output_tokens"
    return "max_completion_tokens" if style == "openai-chat" and _NEWER.match(model) else "max_tokens"


def _effort(style: Style, effort: str) -> dict[str, Any]:
    if not effort:
        return {}
    spelled: dict[Style, dict[str, Any]] = {
        "openai-chat": {"reasoning_effort": effort},
        "openai-responses": {"reasoning": {"effort": effort}},
        "anthropic": {"output_config": {"effort": effort}},
    }
    return spelled[style]


def _texts(messages: list[Any]) -> list[str]:
    found = []
    for message in messages:
        content = message.get("content")
        found += [content] if isinstance(content, str) else [str(p.get("text", "")) for p in content or ()]
    return found


def _posted(url: str, body: Mapping[str, Any], headers: Mapping[str, str], seconds: float) -> Any:
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    request = urllib.request.Request(url, data=data, headers=dict(headers), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            read = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        raise ModelError(f"{url} answered {error.code}: {error.read(400).decode('utf-8', 'replace')}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{url}: {type(error).__name__}: {error}") from None
    if len(read) > LARGEST:
        raise ModelError(f"{url} answered more than {LARGEST:,} bytes")
    try:
        return json.loads(read)
    except ValueError:
        raise ModelError(f"{url} answered no JSON: {read[:200]!r}") from None
