"""Gemini's generateContent API besides contents: paths that hold the model, keys, usage, errors, tools, summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from danshari.core.recall_tools import ToolDefinition
from danshari.core.summary import Reply, Request
from danshari.core.text import lazy_pattern
from danshari.formats.api import ProviderApi, TokenUsage, join_text_parts, number, plain_prompt
from danshari.formats.gemini.parts import find_object
from danshari.formats.recall import RecallFormat

_PATH = lazy_pattern(r"/models/(?P<model>[^/:]+):(?P<method>generateContent|streamGenerateContent|countTokens)/?\Z")
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiApi(ProviderApi):
    """Requests and responses of `generateContent`, on the Gemini API and on Vertex AI."""

    format = "gemini"
    vendor = "google"
    base_url = "https://generativelanguage.googleapis.com"
    path = ":generateContent"
    side_paths = (":countTokens",)
    key_variable = "GEMINI_API_KEY"
    url_variables = ("GOOGLE_GEMINI", "GEMINI", "GOOGLE_VERTEX")
    telemetry_name = "gcp.gemini"
    usage_marks = (b"usageMetadata", b"error", b"finishReason")

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────

    def matches_path(self, path: str) -> bool:
        """Return whether a path ends with a model and `generateContent` or `streamGenerateContent`."""
        found = _PATH.search(path)
        return found is not None and found["method"] != "countTokens"

    def claims_request(self, headers: Mapping[str, str], path: str) -> bool:
        """Return whether the headers are those of Google's SDKs or the path that of its API: keys may be in the URL."""
        return "x-goog-api-key" in headers or "x-goog-api-client" in headers or "/v1beta/" in path

    def request_path(self, model: str) -> str:
        """Return the path of a request to a model."""
        return f"/models/{model}:generateContent"

    def model_of(self, path: str, values: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the model in the path."""
        found = _PATH.search(path)
        return found["model"] if found else ""

    def is_stream(self, path: str, values: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return whether the path names the streaming method."""
        return "streamGenerateContent" in path

    def choice_count(self, values: Mapping[str, Any]) -> int:
        """Return `candidateCount`."""
        config = find_object(values, "generationConfig") or {}
        return int(config.get("candidateCount") or config.get("candidate_count") or 1)

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the key's header."""
        return {"x-goog-api-key": key} if key else {}

    def offers_recall(self, values: Mapping[str, Any], url: str) -> bool:
        """Return whether functions are declared and a stream, if any, is one of events (`alt=sse`, as SDKs ask for).

        Beside the provider's own tools alone (search, code execution), functions may not be declared.
        """
        declared = any(_declarations_key(tool) for tool in values.get("tools") or ())
        return declared and ("streamGenerateContent" not in url or "alt=sse" in url)

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────

    def define_tools(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return one tool with all function declarations."""
        made = [
            {"name": t.name, "description": t.description, "parametersJsonSchema": dict(t.parameters)} for t in tools
        ]
        return [{"functionDeclarations": made}]

    def count_tools(self, tools: Sequence[Any]) -> int:
        """Return the number of function declarations, which stand together in one tool."""
        return sum(len(tool[key]) if (key := _declarations_key(tool)) else 1 for tool in tools)

    def add_tools(self, values: Mapping[str, Any], tools: Sequence[ToolDefinition]) -> list[Any]:
        """Return the tools with more declarations in the last that has some: Vertex AI takes one such tool only."""
        given, (made,) = list(values.get("tools") or ()), self.define_tools(tools)
        for at in range(len(given) - 1, -1, -1):
            if key := _declarations_key(given[at]):
                given[at] = {**given[at], key: [*given[at][key], *made["functionDeclarations"]]}
                return given
        return [*given, made]

    # ── responses ────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def recall(self) -> RecallFormat:
        """How hidden recall calls look in parts."""
        from danshari.formats.gemini.recall import GeminiRecallFormat  # only the proxy needs it

        return GeminiRecallFormat()

    def read_usage(self, usage: Mapping[str, Any]) -> TokenUsage | None:
        """Read `usageMetadata`, whose prompt tokens include cached ones; thoughts are billed as output.

        What the provider's own tools gave the model stands beside the prompt tokens.
        """
        total = number(usage, "promptTokenCount") or number(usage, "prompt_token_count")
        if not total:
            return None
        total += number(usage, "toolUsePromptTokenCount") or number(usage, "tool_use_prompt_token_count")
        cached = number(usage, "cachedContentTokenCount") or number(usage, "cached_content_token_count")
        output = number(usage, "candidatesTokenCount") or number(usage, "candidates_token_count")
        thoughts = number(usage, "thoughtsTokenCount") or number(usage, "thoughts_token_count")
        return TokenUsage(total, cached, 0.0, output + thoughts)

    def response_usage(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `usageMetadata`."""
        usage = value.get("usageMetadata")
        return usage if isinstance(usage, Mapping) else {}

    def ends_stream(self, value: Mapping[str, Any]) -> bool:
        """Return whether the first candidate is finished."""
        candidates = value.get("candidates") or [{}]
        return bool(candidates[0].get("finishReason"))

    def error_type(self, status: int) -> str:
        """Return the status in Google's words."""
        return _STATUSES.get(status, "INTERNAL")

    def render_error(self, status: int, text: str) -> bytes:
        """Return an error with code, message and status."""
        error = {"code": status, "message": text, "status": self.error_type(status)}
        return json.dumps({"error": error}).encode()

    # ── summaries ────────────────────────────────────────────────────────────────────────────────────────────

    def read_reply(self, value: Mapping[str, Any]) -> Reply | None:
        """Read a response."""
        candidates = value.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            return None
        parts = (candidates[0].get("content") or {}).get("parts") or ()
        usage = self.read_usage(self.response_usage(value)) or TokenUsage()
        reason = str(candidates[0].get("finishReason") or "STOP")
        return Reply(
            text=join_text_parts([p for p in parts if not p.get("thought")]),
            finish={"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refusal"}.get(reason, reason),
            calls=sum("functionCall" in p for p in parts),
            reasoning=join_text_parts([p for p in parts if p.get("thought")]),
            read=int(usage.total),
            cached=int(usage.cached),
            written=int(usage.output),
        )

    def summary_url(self, url: str) -> str:
        """Return the URL without streaming, which the path asks for."""
        path, _, query = url.partition("?")
        kept = "&".join(part for part in query.split("&") if part and part != "alt=sse")
        path = path.replace(":streamGenerateContent", self.path).replace(":countTokens", self.path)
        return path + (f"?{kept}" if kept else "")

    def flat_body(self, request: Request, model: str) -> dict[str, Any]:  # noqa: ARG002
        """Return one user content with the text; the model stands in the path."""
        return {
            "contents": [{"role": "user", "parts": [{"text": plain_prompt(request)}]}],
            "generationConfig": _config({}, request),
        }

    def warm_body(self, request: Request, model: str) -> dict[str, Any]:  # noqa: ARG002
        """Return the agent's request with the summary's contents."""
        body = {**request.body, "contents": request.messages}
        body["generationConfig"] = _config(body.get("generationConfig") or {}, request)
        if request.tools:
            body.setdefault("tools", request.tools)
        if request.system:
            body.setdefault("systemInstruction", request.system)
        return body


def _declarations_key(tool: Any) -> str:
    """Return the key under which a tool declares functions; "" if it declares none."""
    keys = ("functionDeclarations", "function_declarations")
    return next((key for key in keys if isinstance(tool, Mapping) and isinstance(tool.get(key), list)), "")


def _config(config: Mapping[str, Any], request: Request) -> dict[str, Any]:
    effort = {"thinkingConfig": {"thinkingLevel": request.effort}} if request.effort else {}
    return {**config, "maxOutputTokens": request.most, **effort}


API = GeminiApi()
