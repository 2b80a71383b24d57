"""Record each decision and each response: session totals, Prometheus metrics and one log line per request."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from danshari.compaction import Compaction
from danshari.formats.usage import cache_read_tokens, input_tokens
from danshari.proxy.http.usage_watch import UsageWatch
from danshari.proxy.observe.metrics import ProxyMetrics
from danshari.proxy.sessions.session import BILLED_KINDS, ProxySession

_log = logging.getLogger("danshari.proxy")
_MAX_DECISIONS = 6
"""Decisions kept for the page."""


class UsageRecorder:
    """Records what was decided and billed, for all sessions of one proxy."""

    def __init__(self, counts: ProxyMetrics) -> None:
        self.counts = counts

    def record_decision(self, keeper: ProxySession, result: Compaction) -> None:
        """Add one compaction result to the session's totals and to the metrics."""
        figures, counts = keeper.figures, self.counts
        figures.requests += 1
        figures.before += result.before
        figures.after += result.after
        figures.edits += len(result.edits)
        figures.faults += bool(result.fault)
        counts.tokens.labels("before").inc(result.before)
        counts.tokens.labels("after").inc(result.after)
        if result.edits:
            why = "first sight" if all(e.by == "admit" for e in result.edits) else result.trigger or "first sight"
            counts.edits.labels(why).inc(len(result.edits))
            count = "1 edit" if len(result.edits) == 1 else f"{len(result.edits)} edits"
            said = f"{count}, {result.before:,.0f} → {result.after:,.0f} tokens ({why})"
            figures.last = (said, *figures.last)[:_MAX_DECISIONS]

    def record_response(
        self, keeper: ProxySession, watch: UsageWatch, status: int, *, last: Mapping[str, Any] | None = None
    ) -> None:
        """Record a finished response: its billed usage, and one log line.

        `watch.usage` may cover several responses (recall hops) and is billed whole. `last` is the usage of
        the last response alone, from which the compactor calibrates its token estimate.
        """
        usage = watch.usage
        if usage:
            keeper.compactor.observe(dict(usage if last is None else last))
            self._record_billing(keeper, usage)
        _log.info(
            "%s",
            json.dumps({
                "session": keeper.name, "client": keeper.client, "status": status, "model": keeper.compactor.model.name,
                "requests": keeper.figures.requests, "tokens_before": round(keeper.figures.before),
                "tokens_after": round(keeper.figures.after), "usage": _integer_fields(usage),
                "dollars": round(keeper.figures.dollars, 6), "finished": watch.finished,
            }),
        )  # fmt: skip

    def _record_billing(self, keeper: ProxySession, usage: Mapping[str, Any]) -> None:
        """Add reported usage, in tokens and dollars, to the session and the metrics.

        Units are tokens weighted by price relative to fresh input: fresh (total less cached and written) +
        read factor x cached + write factor x written + output factor x output. The model's price table
        turns units into dollars.
        """
        total, cached = input_tokens(usage), cache_read_tokens(usage)
        written = float(usage.get("cache_creation_input_tokens") or 0)
        output = float(usage.get("output_tokens") or usage.get("completion_tokens") or 0)
        parts = dict(zip(BILLED_KINDS, (max(total - cached - written, 0.0), cached, written, output), strict=True))
        prices = keeper.compactor.model.prices
        units = parts["fresh"] + prices.read * cached + prices.write * written + prices.output * output
        dollars = prices.dollars(units)
        for kind, tokens in parts.items():
            keeper.figures.billed[kind] += tokens
            self.counts.billed.labels(kind).inc(tokens)
        keeper.figures.dollars += dollars
        self.counts.dollars.inc(dollars)


def _integer_fields(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the integer fields of a usage report, for the log line."""
    return {k: v for k, v in usage.items() if isinstance(v, int) and not isinstance(v, bool)}
