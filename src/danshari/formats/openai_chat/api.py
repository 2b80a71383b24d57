"""OpenAI's chat completions API besides messages, and what it shares with the Responses API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from danshari.core.recall_tools import ToolDefinition
from danshari.core.summary import Reply, Request
from danshari.core.text import lazy_pattern
from danshari.formats.api import ProviderApi, TokenUsage, join_text_parts, number, plain_prompt
from danshari.formats.recall import RecallFormat

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
_NO_MAX_TOKENS = lazy_pattern(r"(?:gpt-5|o\d)")
"""OpenAI models that refuse `max_tokens` (API reference, 2026-10)."""
_LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")


class OpenAIApi(ProviderApi):
    """What both of OpenAI's APIs share."""

    vendor = "openai"
    base_url = "https://api.openai.com"
    key_variable = "OPENAI_API_KEY"
    url_variables = ("OPENAI",)
    telemetry_name = "openai"

    def error_type(self, status: int) -> str:
        """Return OpenAI's error type."""
        return _ERROR_TYPES.get(status, "server_error")

    def render_error(self, status: int, text: str) -> bytes:
        """Return an error object with its four fields."""
        error = {"message": text, "type": self.error_type(status), "param": None, "code": None}
        return json.dumps({"error": error}).encode()

    def limit_field(self, model: str) -> str:
        """Return the field that limits the tokens of an answer."""
        raise NotImplementedError

    def effort_fields(self, effort: str) -> dict[str, Any]:
        """Return the fields that ask for a reasoning effort; empty if none is asked for."""
        raise NotImplementedError

    def messages_body(self, request: Request, model: str, key: str) -> dict[str, Any]:
        """Return the agent's request with the summary's messages under `key`."""
        body = {"model": model, **request.body, key: request.messages, **self.effort_fields(request.effort)}
        limit = next((k for k in _LIMITS if k in body), self.limit_field(model))
        if limit not in body or "thinking" not in body:  # a thinking budget must stay below the limit it came with
            body[limit] = request.most
        if request.tools:
            body.setdefault("tools", request.tools)
        body.pop("stream", None)
        return body


class OpenAIChatApi(OpenAIApi):
    """Requests and responses of chat completions, also of the many compatible servers."""

    format = "openai-chat"
    path = "/chat/completions"

    def define_tools(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return tools of type `function`."""
        return [{"type": "function", "function": made} for made in super().define_tools(tools)]

    @cached_property
    def recall(self) -> RecallFormat:
        """How hidden recall calls look in `tool_calls`."""
        from danshari.formats.openai_chat.recall import ChatRecallFormat  # only the proxy needs it

        return ChatRecallFormat()

    def read_usage(self, usage: Mapping[str, Any]) -> TokenUsage | None:
        """Read a usage report, whose `prompt_tokens` include cached ones; what gateways add counts beside them."""
        if "prompt_tokens" not in usage:
            return None
        details = usage.get("prompt_tokens_details") or {}
        read, written = number(usage, "cache_read_input_tokens"), number(usage, "cache_creation_input_tokens")
        own = number(usage, "cached_tokens") or number(usage, "prompt_cache_hit_tokens")  # Kimi, DeepSeek
        told = number(details, "cached_tokens") or own
        cached = read if "cache_read_input_tokens" in usage else told
        total = number(usage, "prompt_tokens") + read + written
        written = written or number(details, "cache_write_tokens")  # these are part of the prompt tokens
        return TokenUsage(total, cached, written, number(usage, "completion_tokens") or number(usage, "output_tokens"))

    def read_reply(self, value: Mapping[str, Any]) -> Reply | None:
        """Read a chat completion."""
        choices = value.get("choices")
        if not isinstance(choices, list) or not choices:
            return None
        message = choices[0].get("message") or {}
        usage = value.get("usage") or {}
        return Reply(
            text=join_text_parts(message.get("content")),
            finish="refusal" if message.get("refusal") else str(choices[0].get("finish_reason") or "stop"),
            calls=len(message.get("tool_calls") or ()),
            reasoning=str(message.get("reasoning_content") or ""),
            read=int(usage.get("prompt_tokens") or 0),
            cached=int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0),
            written=int(usage.get("completion_tokens") or 0),
        )

    def limit_field(self, model: str) -> str:
        """Return `max_completion_tokens` for models that refuse `max_tokens`."""
        return "max_completion_tokens" if _NO_MAX_TOKENS.match(model) else "max_tokens"

    def effort_fields(self, effort: str) -> dict[str, Any]:
        """Return `reasoning_effort`."""
        return {"reasoning_effort": effort} if effort else {}

    def flat_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return one user message with the text."""
        turns = [{"role": "user", "content": plain_prompt(request)}]
        effort = self.effort_fields(request.effort)
        return {"model": model, self.limit_field(model): request.most, "messages": turns, **effort}

    def warm_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return the agent's request; its system prompt stands among the messages already."""
        return self.messages_body(request, model, "messages")


API = OpenAIChatApi()
