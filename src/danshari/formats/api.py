"""The base class of provider APIs: everything of a provider but its messages.

One subclass stands in every provider's folder, in the module `api`. The proxy, the summarizers, recall tools and
scripted providers ask it, and know no provider themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from danshari.core.recall_tools import ToolDefinition
from danshari.core.summary import Reply, Request
from danshari.errors import ModelError
from danshari.formats.recall import RecallFormat

_HARMLESS_EDITS = ("clear_thinking",)
"""Beginnings of context edits on the provider's side that leave results and texts alone."""


class TokenUsage(NamedTuple):
    """Tokens of one request as the provider reported them."""

    total: float = 0.0
    """All input tokens, cached ones included."""
    cached: float = 0.0
    """Input tokens that were read from the provider's cache."""
    written: float = 0.0
    """Input tokens that were written to the cache at a surcharge."""
    output: float = 0.0
    context: float = 0.0
    """Input tokens of the last call of the model alone, where the report adds up several; 0: those are `total`."""

    @property
    def size(self) -> float:
        """Input tokens of the context that the model saw last."""
        return self.context or self.total


class ProviderApi:
    """What a provider's HTTP API has besides messages."""

    format: ClassVar[str]
    vendor: ClassVar[str] = ""
    """Name of the upstream where a request names none."""
    base_url: ClassVar[str] = ""
    path: ClassVar[str] = ""
    """How the paths of requests to a model end."""
    side_paths: ClassVar[tuple[str, ...]] = ()
    """How the paths of requests end that send a model's messages for something else, say to count their tokens."""
    key_variable: ClassVar[str] = ""
    """Environment variable from which the command line takes the key of a summarizer."""
    url_variables: ClassVar[tuple[str, ...]] = ()
    """Beginnings of the environment variables by which SDKs are given a base URL."""
    telemetry_name: ClassVar[str] = ""
    """`gen_ai.provider.name` in OpenTelemetry's conventions."""
    usage_marks: ClassVar[tuple[bytes, ...]] = (b"usage", b"error", b"[DONE]")
    """Bytes of which one stands in every stream event that reports usage, an error or the end."""
    opening_events: ClassVar[tuple[bytes, ...]] = ()
    """Bytes of which one stands in a stream event that only says that an answer has begun."""
    most_tools: ClassVar[int | None] = 128
    """Tools of one request that the provider takes at most; None if it names no limit."""
    session_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of a request by which the provider holds the history, so that the request carries only what is new."""

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────

    def matches_path(self, path: str) -> bool:
        """Return whether a POST to this path is a request to a model."""
        return path.rstrip("/").endswith(self.path)

    def is_side_path(self, path: str) -> bool:
        """Return whether a POST to this path sends the messages of a model's requests and gets no answer of it."""
        return path.rstrip("/").endswith(self.side_paths)

    def claims_request(self, headers: Mapping[str, str], path: str) -> bool:  # noqa: ARG002
        """Return whether a request that is none to a model is meant for this provider, by its headers or path."""
        return False

    def request_path(self, model: str) -> str:  # noqa: ARG002
        """Return the path of a request to a model, below the base URL with its version."""
        return self.path

    def model_of(self, path: str, values: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the model that a request names; "" if it names none."""
        return str(values.get("model") or "")

    def is_stream(self, path: str, values: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return whether a request asks for a stream."""
        return bool(values.get("stream"))

    def choice_count(self, values: Mapping[str, Any]) -> int:
        """Return the number of answers that a request asks for."""
        return int(values.get("n") or 1)

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry a key."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def session_key(self, values: Mapping[str, Any]) -> str:
        """Return the client's own name of its session, if the request's fields carry one."""
        key = values.get("prompt_cache_key")
        return key if isinstance(key, str) else ""

    def wide_window(self, headers: Mapping[str, str]) -> int | None:  # noqa: ARG002
        """Return the window in tokens that a request asks for beyond the model's row; None if none."""
        return None

    def reason_not_to_compact(self, values: Mapping[str, Any]) -> str:
        """Return why a request cannot be compacted; "" if it can.

        It cannot where the provider holds the history, or edits it itself beyond clearing thinking.
        """
        for name in self.session_fields:
            if values.get(name):
                return f"the provider holds the history ({name})"
        management = values.get("context_management")
        edits = management.get("edits") if isinstance(management, Mapping) else management
        for edit in edits if isinstance(edits, list) else ():
            kind = str(edit.get("type", "")) if isinstance(edit, Mapping) else ""
            if kind and not kind.startswith(_HARMLESS_EDITS):
                return "the provider edits the context itself (context_management)"
        return ""

    def offers_recall(self, values: Mapping[str, Any], url: str) -> bool:  # noqa: ARG002
        """Return whether hidden recall tools may be offered unasked; `url` is the path and query of the request."""
        return bool(values.get("tools"))

    def hint_changes(
        self,
        hints: Mapping[str, Any],
        values: Mapping[str, Any],  # noqa: ARG002
        headers: Mapping[str, str],  # noqa: ARG002
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the body fields and headers by which a request carries a compaction's hints."""
        return dict(hints), {}

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────

    def define_tools(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return tool definitions in the provider's shape."""
        return [
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)} for tool in tools
        ]

    def count_tools(self, tools: Sequence[Any]) -> int:
        """Return how many tools the provider counts in the `tools` of a request."""
        return len(tools)

    def add_tools(self, values: Mapping[str, Any], tools: Sequence[ToolDefinition]) -> list[Any]:
        """Return the `tools` of a request followed by further ones."""
        return [*(values.get("tools") or ()), *self.define_tools(tools)]

    # ── responses ────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def recall(self) -> RecallFormat:
        """How hidden recall calls look in responses and requests."""
        raise NotImplementedError

    def read_usage(self, usage: Mapping[str, Any]) -> TokenUsage | None:  # noqa: ARG002
        """Read a usage report; None if it is not in this provider's spelling."""
        return None

    def response_usage(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the usage report in a response or a stream event; empty if it holds none."""
        usage = value.get("usage")
        return usage if isinstance(usage, Mapping) else {}

    def response_error(self, value: Mapping[str, Any]) -> Any:
        """Return the error in a response or a stream event; None if there is none."""
        return value.get("error") or None

    def ends_stream(self, value: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return whether a stream event says that the response is complete."""
        return False

    def render_error(self, status: int, text: str) -> bytes:
        """Return an error body of danshari's own in the provider's shape; `text` says what is wrong."""
        return json.dumps({"error": {"type": self.error_type(status), "message": text}}).encode()

    def error_type(self, status: int) -> str:
        """Return the provider's word for an error of this status."""
        return "invalid_request_error" if 400 <= status < 500 else "server_error"

    # ── summaries ────────────────────────────────────────────────────────────────────────────────────────────

    def read_reply(self, value: Mapping[str, Any]) -> Reply | None:  # noqa: ARG002
        """Read a response as a summarizer's reply; None if it has another shape."""
        return None

    def summary_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return the JSON body of a summary request.

        A flat request is written in this format whatever the conversation's. Raises ModelError if a warm request is in
        another format.
        """
        if request.warm and request.format != self.format:
            raise ModelError(f"a warm request is {request.format}; the endpoint takes {self.format}")
        model = request.model or model
        return self.warm_body(request, model) if request.warm else self.flat_body(request, model)

    def summary_url(self, url: str) -> str:
        """Return where a summary is asked for with the credentials of a client's request to `url`."""
        path, mark, query = url.partition("?")
        side = next((end for end in self.side_paths if path.endswith(end)), "")
        return path.removesuffix(side) + (self.path if side else "") + mark + query

    def flat_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return the body that asks for a summary of plain text."""
        raise NotImplementedError

    def warm_body(self, request: Request, model: str) -> dict[str, Any]:
        """Return the body that extends the agent's own request, so that its cached prefix is read."""
        raise NotImplementedError


def plain_prompt(request: Request) -> str:
    """Return the text of a flat summary request, whatever its format."""
    from danshari.formats import find_format  # the table imports this module's neighbours

    wire = find_format(request.format)
    return "\n\n".join(piece.text for message in request.messages for piece in wire.split(message) if piece.text)


def join_text_parts(content: Any) -> str:
    """Return the text of a message's content: a string, or the texts of its parts joined."""
    if isinstance(content, str):
        return content
    return "".join(str(p.get("text") or "") for p in content or () if isinstance(p, Mapping))


def number(usage: Mapping[str, Any], key: str) -> float:
    """Return a number of a usage report; 0 if it is missing or no number."""
    value = usage.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
