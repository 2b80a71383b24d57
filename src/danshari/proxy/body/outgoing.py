"""Decide what to send upstream for one request: the client's bytes, or a copy with changed spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from danshari.compaction import Compaction
from danshari.formats import Format, find_format
from danshari.proxy.body.body import RequestBody, read_body
from danshari.proxy.http.overflow import ContextOverflow
from danshari.proxy.http.routes import ApiRoute
from danshari.proxy.sessions.session import ProxySession
from danshari.proxy.settings import Settings

OFF_HEADER = "x-danshari"
_SERVER_SIDE_FIELDS = ("previous_response_id", "conversation")
"""Fields by which the provider holds the history, so that a request carries only what is new."""
_HARMLESS_EDITS = ("clear_thinking",)
"""Beginnings of context edits on the provider's side that leave results and texts alone."""


@dataclass(slots=True, kw_only=True)
class OutgoingRequest:
    """One request as it will be sent upstream, with its session and the compaction result."""

    data: bytes
    headers: dict[str, str] = field(default_factory=dict)
    """Headers to set."""
    keeper: ProxySession | None = None
    result: Compaction | None = None
    body: RequestBody | None = None
    untouched: str = ""
    """Why the request is not looked at; "" if it is."""
    fault: str = ""


def reason_not_to_compact(values: Mapping[str, Any], wire: Format) -> str:
    """Return why a request cannot be compacted here; "" if it can."""
    for name in _SERVER_SIDE_FIELDS:
        if values.get(name):
            return f"the provider holds the history ({name})"
    management = values.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else management
    for edit in edits if isinstance(edits, list) else ():
        kind = str(edit.get("type", "")) if isinstance(edit, Mapping) else ""
        if kind and not kind.startswith(_HARMLESS_EDITS):
            return "the provider edits the context itself (context_management)"
    if not isinstance(values.get(wire.key), list) or not values[wire.key]:
        return f"no list of messages under {wire.key!r}"
    return ""


def read_request_body(raw: bytes, route: ApiRoute, last: RequestBody | None) -> RequestBody | str:
    """Parse a request body; return a text with the reason if it cannot be compacted."""
    wire = find_format(route.format)
    try:
        body = read_body(raw.decode("utf-8"), wire.key, last)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError too
        return f"not read: {type(error).__name__}"
    return reason_not_to_compact(body.values, wire) or body


def compact_request(
    sending: OutgoingRequest, headers: Mapping[str, str], settings: Settings, *, refused: ContextOverflow | None = None
) -> OutgoingRequest:
    """Compact a request and write its new body; the client's bytes stay where nothing changes.

    `refused` is the provider's overflow error for this request, and forces a compaction. Updates and
    returns `sending`.
    """
    keeper, body = sending.keeper, sending.body
    assert keeper is not None
    assert body is not None
    keeper.prepare(body.values, headers, settings)
    if refused is not None:
        keeper.record_overflow(refused.counted, refused.limit)
    values, fields = body.values, dict[str, Any]()
    recalls = keeper.recalls
    if recalls is not None and recalls.offered:
        if values.get("tools") and int(values.get("n") or 1) == 1:
            fields["tools"] = recalls.tools(values)
        values = {**values, **fields, body.key: recalls.insert_hops(body.messages)}
    result = keeper.compactor.compact(values, force=True if refused else None)
    sending.result, sending.fault = result, result.fault
    view = result.messages[body.key] if isinstance(result.messages, Mapping) else result.messages
    hints, betas = _split_hints(result.hints, body.values)
    fields |= hints
    if is_same_view(view, body.messages) and not fields:
        return sending
    sending.data = body.write(body.messages if is_same_view(view, body.messages) else view, fields)
    if betas:
        sending.headers["anthropic-beta"] = ",".join(filter(None, [headers.get("anthropic-beta", ""), *betas]))
    return sending


def is_same_view(view: Any, messages: list[Any]) -> bool:
    """Return whether a view consists of the caller's own message objects."""
    return len(view) == len(messages) and all(a is b for a, b in zip(view, messages, strict=True))


def _split_hints(hints: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Split a compaction's hints on thinking into body fields and beta header values.

    Both are empty if the request does not enable thinking.
    """
    thinking = values.get("thinking")
    if not hints or not isinstance(thinking, Mapping) or thinking.get("type") == "disabled":
        return {}, []
    fields = {
        key: {**thinking, **value} if key == "thinking" else value for key, value in hints.items() if key != "betas"
    }
    return fields, list(hints.get("betas", ()))
