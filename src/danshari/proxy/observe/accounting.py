"""Record each decision and each response: session totals, Prometheus metrics, spans and one log line per request.

Spans follow OpenTelemetry's GenAI conventions, without content, and go to the tracer of the process, such as that of
`opentelemetry-instrument danshari proxy`; none if the package is not installed.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from danshari.compaction import Compaction
from danshari.formats import Format
from danshari.formats.usage import read_usage
from danshari.proxy.http.usage_watch import UsageWatch
from danshari.proxy.observe.metrics import ProxyMetrics
from danshari.proxy.sessions.session import BILLED_KINDS, ProxySession

try:
    from opentelemetry import trace
except ImportError:  # the extra `obs` is not installed: no spans
    trace = None  # type: ignore[assignment]

_log = logging.getLogger("danshari.proxy")
_MAX_DECISIONS = 6
"""Decisions kept for the page."""


class UsageRecorder:
    """Records what was decided and billed, for all sessions of one proxy."""

    def __init__(self, metrics: ProxyMetrics) -> None:
        self.metrics = metrics

    def record_decision(self, session: ProxySession, result: Compaction) -> None:
        """Add one compaction result to the session's totals and to the metrics."""
        totals, metrics = session.totals, self.metrics
        totals.requests += 1
        totals.before += result.before
        totals.after += result.after
        totals.edits += len(result.edits)
        totals.faults += bool(result.fault)
        metrics.tokens.labels("before").inc(result.before)
        metrics.tokens.labels("after").inc(result.after)
        if result.edits:
            why = "first sight" if all(e.by == "admit" for e in result.edits) else result.trigger or "first sight"
            metrics.edits.labels(why).inc(len(result.edits))
            count = "1 edit" if len(result.edits) == 1 else f"{len(result.edits)} edits"
            said = f"{count}, {result.before:,.0f} → {result.after:,.0f} tokens ({why})"
            totals.last = (said, *totals.last)[:_MAX_DECISIONS]

    def record_response(
        self, session: ProxySession, watch: UsageWatch, status: int, *, last: Mapping[str, Any] | None = None
    ) -> None:
        """Record a finished response: its billed usage, and one log line.

        `watch.usage` may cover several responses (recall hops) and is billed whole. `last` is the usage of
        the last response alone, from which the compactor calibrates its token estimate.
        """
        usage = watch.usage
        if usage:
            session.compactor.observe(dict(usage if last is None else last))
            self._record_billing(session, usage)
        _log.info(
            "%s",
            json.dumps({
                "session": session.name, "client": session.client_name, "status": status,
                "model": session.compactor.model.name,
                "requests": session.totals.requests, "tokens_before": round(session.totals.before),
                "tokens_after": round(session.totals.after), "usage": _integer_fields(usage),
                "dollars": round(session.totals.dollars, 6), "finished": watch.finished,
            }),
        )  # fmt: skip

    def _record_billing(self, session: ProxySession, usage: Mapping[str, Any]) -> None:
        """Add reported usage, in tokens and dollars, to the session and the metrics.

        Units are tokens weighted by price relative to fresh input: fresh (total less cached and written) +
        read factor x cached + write factor x written + output factor x output. The model's price table
        turns units into dollars.
        """
        total, cached, written, output, _ = read_usage(usage, session.wire.api)
        parts = dict(zip(BILLED_KINDS, (max(total - cached - written, 0.0), cached, written, output), strict=True))
        prices = session.compactor.model.prices
        units = parts["fresh"] + prices.read * cached + prices.write * written + prices.output * output
        dollars = prices.dollars(units)
        for kind, tokens in parts.items():
            session.totals.billed[kind] += tokens
            self.metrics.billed.labels(kind).inc(tokens)
        session.totals.dollars += dollars
        self.metrics.dollars.inc(dollars)


def _integer_fields(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the integer fields of a usage report, for the log line."""
    return {k: v for k, v in usage.items() if isinstance(v, int) and not isinstance(v, bool)}


class TraceSpan:
    """The span of one request; does nothing if tracing is off."""

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner

    def set(self, **attributes: str | float | bool | None) -> None:
        """Set attributes; `__` in a name becomes `.`, and None values are skipped."""
        if self._inner is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._inner.set_attribute(name.replace("__", "."), value)

    def set_usage(self, usage: Mapping[str, Any], wire: Format) -> None:
        """Set the billed token counts."""
        total, cached, _, output, _ = read_usage(usage, wire.api)
        self.set(gen_ai__usage__input_tokens=int(total), gen_ai__usage__cached_tokens=int(cached),
                 gen_ai__usage__output_tokens=int(output) if output else None)  # fmt: skip


@contextlib.contextmanager
def trace_request(wire: Format, model: str) -> Iterator[TraceSpan]:
    """Trace one request to a model."""
    if trace is None:
        yield TraceSpan()
        return
    tracer = trace.get_tracer("danshari.proxy")
    with tracer.start_as_current_span(f"chat {model}".strip(), kind=trace.SpanKind.CLIENT) as inner:
        made = TraceSpan(inner)
        made.set(gen_ai__operation__name="chat", gen_ai__provider__name=wire.api.telemetry_name,
                 gen_ai__request__model=model or None)  # fmt: skip
        yield made
