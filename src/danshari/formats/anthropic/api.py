"""Anthropic's Messages API besides messages: path, keys, usage, errors, tools, summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from danshari.core.recall_tools import ToolDefinition
from danshari.core.summary import Reply, Request
from danshari.formats.api import ProviderApi, TokenUsage, join_text_parts, number, plain_prompt
from danshari.formats.recall import RecallFormat

_VERSION = "2023-06-01"
"""The `anthropic-version` header (platform docs, 2026-10)."""
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_WIDE_BETA, _WIDE_WINDOW = "context-1m", 1_000_000
"""A beta by which a request asks for a wider window than its model's row has, and that window in tokens."""
_BILLED_FIELDS = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens")
_USAGE_FIELDS = frozenset(("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))


class AnthropicApi(ProviderApi):
    """Requests and responses of the Messages API."""

    format = "anthropic"
    vendor = "anthropic"
    base_url = "https://api.anthropic.com"
    path = "/messages"
    side_paths = ("/messages/count_tokens",)
    key_variable = "ANTHROPIC_API_KEY"
    url_variables = ("ANTHROPIC",)
    telemetry_name = "anthropic"
    most_tools = None
    opening_events = (b"message_start", b'"ping"')
    usage_marks = (b"usage", b"error", b"message_stop")

    def claims_request(self, headers: Mapping[str, str], path: str) -> bool:  # noqa: ARG002
        """Return whether the headers are those of Anthropic's SDKs."""
        return "anthropic-version" in headers or "x-api-key" in headers

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the version header, and the key if there is one."""
        return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}

    def session_key(self, values: Mapping[str, Any]) -> str:
        """Return the session in `metadata.user_id`, as Claude Code writes it."""
        metadata = values.get("metadata")
        user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
        return _session_from_user_id(user) if isinstance(user, str) and user else super().session_key(values)

    def wide_window(self, headers: Mapping[str, str]) -> int | None:
        """Return the window that a beta header asks for."""
        return _WIDE_WINDOW if _WIDE_BETA in headers.get("anthropic-beta", "") else None

    def hint_changes(
        self, hints: Mapping[str, Any], values: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return what makes the provider drop invalid thinking; nothing if the request does not enable thinking."""
        thinking = values.get("thinking")
        if not hints or not isinstance(thinking, Mapping) or thinking.get("type") == "disabled":
            return {}, {}
        fields = {k: {**thinking, **v} if k == "thinking" else v for k, v in hints.items() if k != "betas"}
        betas = ",".join(filter(None, [headers.get("anthropic-beta", ""), *hints.get("betas", ())]))
        return fields, {"anthropic-beta": betas} if hints.get("betas") else {}

    def define_tools(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return tools with `input_schema`."""
        return [{"name": t.name, "description": t.description, "input_schema": dict(t.parameters)} for t in tools]

    @cached_property
    def recall(self) -> RecallFormat:
        """How hidden recall calls look in content blocks."""
        from danshari.formats.anthropic.recall import AnthropicRecallFormat  # only the proxy needs it

        return AnthropicRecallFormat()

    def read_usage(self, usage: Mapping[str, Any]) -> TokenUsage | None:
        """Read a usage report, in which cached tokens stand beside `input_tokens`.

        The turns of a server's tools are added up in it; the last of its `iterations` tells the size of the context.
        What the server's own compaction took is billed and stands in `iterations` only (SDK, `BetaUsage.iterations`).
        """
        if "prompt_tokens" in usage or "input_tokens_details" in usage or not usage.keys() & _USAGE_FIELDS:
            return None
        turns = [turn for turn in usage.get("iterations") or () if isinstance(turn, Mapping)]
        billed = [usage, *(turn for turn in turns if turn.get("type") == "compaction")]
        cached, written, fresh, output = (sum(number(part, name) for part in billed) for name in _BILLED_FIELDS)
        last = next((turn for turn in reversed(turns) if turn.get("type") == "message"), {})
        context = sum(number(last, name) for name in _BILLED_FIELDS[:3])
        return TokenUsage(cached + written + fresh, cached, written, output, context)

    def response_usage(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the usage of a message, of `message_start` or of `message_delta`."""
        message = value.get("message")
        return super().response_usage(value) or (
            super().response_usage(message) if isinstance(message, Mapping) else {}
        )

    def ends_stream(self, value: Mapping[str, Any]) -> bool:
        """Return whether this is `message_stop`."""
        return value.get("type") == "message_stop"

    def error_type(self, status: int) -> str:
        """Return Anthropic's error type."""
        return _ERROR_TYPES.get(status, "api_error")

    def render_error(self, status: int, text: str) -> bytes:
        """Return an error of type `error`."""
        return json.dumps({"type": "error", "error": {"type": self.error_type(status), "message": text}}).encode()

    def read_reply(self, value: Mapping[str, Any]) -> Reply | None:
        """Read a message; its input tokens are fresh, cache-written and cached ones."""
        content = value.get("content")
        if not isinstance(content, list) or "stop_reason" not in value:
            return None
        usage = self.read_usage({"input_tokens": 0, **(value.get("usage") or {})}) or TokenUsage()
        return Reply(
            text=join_text_parts([b for b in content if b.get("type") == "text"]),
            finish=str(value.get("stop_reason") or "stop"),
            calls=sum(b.get("type") == "tool_use" for b in content),
            reasoning="\n".join(str(b.get("thinking", "")) for b in content if b.get("type") == "thinking"),
            read=int(usage.total),
            cached=int(usage.cached),
            written=int(usage.output),
        )

    def flat_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return one user message with the text."""
        turns = [{"role": "user", "content": plain_prompt(request)}]
        return {"model": model, "max_tokens": request.most, "messages": turns, **_effort(request)}

    def warm_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return the agent's request with the summary's messages; a thinking budget keeps the limit it came with."""
        body = {"model": model, **request.body, "messages": request.messages, **_effort(request)}
        if "max_tokens" not in body or "thinking" not in body:
            body["max_tokens"] = request.most
        if request.tools:
            body.setdefault("tools", request.tools)
        if request.system:
            body.setdefault("system", request.system)
        body.pop("stream", None)
        return body


def _effort(request: Request) -> dict[str, Any]:
    return {"output_config": {"effort": request.effort}} if request.effort else {}


def _session_from_user_id(user: str) -> str:
    """Extract the session from Claude Code's `user_id`: JSON, or text with `_session_` before the id."""
    if user.startswith("{"):
        try:
            return str(json.loads(user).get("session_id") or user)
        except (ValueError, AttributeError):
            return user
    return user.rpartition("_session_")[2]


API = AnthropicApi()
