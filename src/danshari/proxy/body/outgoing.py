"""What goes upstream for one request: the client's bytes, or those bytes with the edited spans changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from danshari.compaction import Compaction
from danshari.formats import Format, named
from danshari.proxy.body.body import Body, read
from danshari.proxy.http.overflow import Overflow
from danshari.proxy.http.routes import Route
from danshari.proxy.sessions.session import Keeper
from danshari.proxy.settings import Settings

OFF_HEADER = "x-danshari"
_SERVER_SIDE = ("previous_response_id", "conversation")
"""Fields by which the provider holds the history, so that a request carries only what is new."""
_HARMLESS = ("clear_thinking",)
"""Beginnings of context edits on the provider's side that leave results and texts alone."""


@dataclass(slots=True, kw_only=True)
class Sending:
    """One request as it goes upstream."""

    data: bytes
    headers: dict[str, str] = field(default_factory=dict)
    """Headers to set."""
    keeper: Keeper | None = None
    result: Compaction | None = None
    body: Body | None = None
    untouched: str = ""
    """Why the request is not looked at; "" if it is."""
    fault: str = ""


def untouched(values: Mapping[str, Any], wire: Format) -> str:
    """Say why a request cannot be compacted here; "" if it can."""
    for name in _SERVER_SIDE:
        if values.get(name):
            return f"the provider holds the history ({name})"
    management = values.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else management
    for edit in edits if isinstance(edits, list) else ():
        kind = str(edit.get("type", "")) if isinstance(edit, Mapping) else ""
        if kind and not kind.startswith(_HARMLESS):
            return "the provider edits the context itself (context_management)"
    if not isinstance(values.get(wire.key), list) or not values[wire.key]:
        return f"no list of messages under {wire.key!r}"
    return ""


def opened(raw: bytes, route: Route, last: Body | None) -> Body | str:
    """Read a request's body, or say why it cannot be compacted."""
    wire = named(route.format)
    try:
        body = read(raw.decode("utf-8"), wire.key, last)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError too
        return f"not read: {type(error).__name__}"
    return untouched(body.values, wire) or body


def compacted(
    sending: Sending, headers: Mapping[str, str], settings: Settings, *, refused: Overflow | None = None
) -> Sending:
    """Decide and write; the client's own bytes where nothing changes. `refused`: the provider found it too long."""
    keeper, body = sending.keeper, sending.body
    assert keeper is not None
    assert body is not None
    keeper.prepare(body.values, headers, settings)
    if refused is not None:
        keeper.refused(refused.counted, refused.limit)
    values, fields = body.values, dict[str, Any]()
    recalls = keeper.recalls
    if recalls is not None and recalls.offered:
        if values.get("tools") and int(values.get("n") or 1) == 1:
            fields["tools"] = recalls.tools(values)
        values = {**values, **fields, body.key: recalls.with_hops(body.messages)}
    result = keeper.compactor.compact(values, force=True if refused else None)
    sending.result, sending.fault = result, result.fault
    view = result.messages[body.key] if isinstance(result.messages, Mapping) else result.messages
    hints, betas = _hints(result.hints, body.values)
    fields |= hints
    if same(view, body.messages) and not fields:
        return sending
    sending.data = body.write(body.messages if same(view, body.messages) else view, fields)
    if betas:
        sending.headers["anthropic-beta"] = ",".join(filter(None, [headers.get("anthropic-beta", ""), *betas]))
    return sending


def same(view: Any, messages: list[Any]) -> bool:
    """Say whether a view is the caller's own messages."""
    return len(view) == len(messages) and all(a is b for a, b in zip(view, messages, strict=True))


def _hints(hints: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Split what bound thinking needs into fields of the body and betas of the header; none where nothing thinks."""
    thinking = values.get("thinking")
    if not hints or not isinstance(thinking, Mapping) or thinking.get("type") == "disabled":
        return {}, []
    fields = {
        key: {**thinking, **value} if key == "thinking" else value for key, value in hints.items() if key != "betas"
    }
    return fields, list(hints.get("betas", ()))
