"""OpenAI's Responses API besides items: path, usage, errors, tools, summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from danshari.core.recall_tools import ToolDefinition
from danshari.core.summary import Reply, Request
from danshari.formats.api import TokenUsage, join_text_parts, number, plain_prompt
from danshari.formats.openai_chat.api import OpenAIApi
from danshari.formats.recall import RecallFormat


class OpenAIResponsesApi(OpenAIApi):
    """Requests and responses of the Responses API."""

    opening_events = (b"response.created", b"response.queued", b"response.in_progress")
    format = "openai-responses"
    path = "/responses"
    side_paths = ("/responses/compact", "/responses/input_tokens")
    session_fields = ("previous_response_id", "conversation")

    def offers_recall(self, values: Mapping[str, Any], url: str) -> bool:
        """Return whether nothing is stored: a stored response can be continued, hidden calls included."""
        return super().offers_recall(values, url) and values.get("store") is False

    def define_tools(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return tools of type `function`, flat."""
        return [{"type": "function", **made} for made in super().define_tools(tools)]

    @cached_property
    def recall(self) -> RecallFormat:
        """How hidden recall calls look in output items."""
        from danshari.formats.openai_responses.recall import ResponsesRecallFormat  # only the proxy needs it

        return ResponsesRecallFormat()

    def read_usage(self, usage: Mapping[str, Any]) -> TokenUsage | None:
        """Read a usage report, whose `input_tokens` include cached ones."""
        if "input_tokens_details" not in usage:
            return None
        details = usage.get("input_tokens_details") or {}
        return TokenUsage(
            number(usage, "input_tokens"),
            number(details, "cached_tokens"),
            number(details, "cache_write_tokens"),
            number(usage, "output_tokens"),
        )

    def response_usage(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the usage of a response, or of the response in a stream event."""
        inner = value.get("response")
        return super().response_usage(value) or (super().response_usage(inner) if isinstance(inner, Mapping) else {})

    def response_error(self, value: Mapping[str, Any]) -> Any:
        """Return the error of a response, or of the response in a stream event."""
        inner = value.get("response")
        return value.get("error") or (inner.get("error") if isinstance(inner, Mapping) else None) or None

    def ends_stream(self, value: Mapping[str, Any]) -> bool:
        """Return whether this is `response.completed`."""
        return value.get("type") == "response.completed"

    def read_reply(self, value: Mapping[str, Any]) -> Reply | None:
        """Read a response."""
        output = value.get("output")
        if not isinstance(output, list):
            return None
        usage = value.get("usage") or {}
        parts = [p for o in output if o.get("type") == "message" for p in o.get("content") or ()]
        return Reply(
            text=join_text_parts([p for p in parts if p.get("type") == "output_text"]),
            finish="length" if value.get("status") == "incomplete" else "stop",
            calls=sum(o.get("type") == "function_call" for o in output),
            reasoning="".join(str(o.get("summary") or "") for o in output if o.get("type") == "reasoning"),
            read=int(usage.get("input_tokens") or 0),
            cached=int((usage.get("input_tokens_details") or {}).get("cached_tokens") or 0),
            written=int(usage.get("output_tokens") or 0),
        )

    def limit_field(self, model: str) -> str:  # noqa: ARG002
        """Return `max_output_tokens`."""
        return "max_output_tokens"

    def effort_fields(self, effort: str) -> dict[str, Any]:
        """Return `reasoning.effort`."""
        return {"reasoning": {"effort": effort}} if effort else {}

    def flat_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return one user item with the text."""
        turns = [{"role": "user", "content": plain_prompt(request)}]
        return {"model": model, "max_output_tokens": request.most, "input": turns, **self.effort_fields(request.effort)}

    def warm_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return the agent's request with the summary's items and its instructions."""
        body = self.messages_body(request, model, "input")
        if request.system:
            body.setdefault("instructions", request.system)
        return body


API = OpenAIResponsesApi()
