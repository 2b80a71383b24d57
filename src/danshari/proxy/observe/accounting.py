"""Keeps the books: what was decided, what was billed, in figures, metrics and one log line a request."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from danshari.compaction import Compaction
from danshari.formats.usage import cached_tokens, input_tokens
from danshari.proxy.http.usage_watch import Watch
from danshari.proxy.observe.metrics import Counts
from danshari.proxy.sessions.session import BILLED, Keeper

_log = logging.getLogger("danshari.proxy")
_LAST = 6
"""Decisions kept for the page."""


class Accounts:
    """Books of one proxy."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts

    def decided(self, keeper: Keeper, result: Compaction) -> None:
        """Book a decision."""
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
            figures.last = (said, *figures.last)[:_LAST]

    def answered(self, keeper: Keeper, watch: Watch, status: int, *, last: Mapping[str, Any] | None = None) -> None:
        """Book an answer: all of it is billed, and the session learns from the usage of the last request alone."""
        usage = watch.usage
        if usage:
            keeper.compactor.observe(dict(usage if last is None else last))
            self._bill(keeper, usage)
        _log.info(
            "%s",
            json.dumps({
                "session": keeper.name, "client": keeper.client, "status": status, "model": keeper.compactor.model.name,
                "requests": keeper.figures.requests, "tokens_before": round(keeper.figures.before),
                "tokens_after": round(keeper.figures.after), "usage": _counts(usage),
                "dollars": round(keeper.figures.dollars, 6), "finished": watch.finished,
            }),
        )  # fmt: skip

    def _bill(self, keeper: Keeper, usage: Mapping[str, Any]) -> None:
        total, cached = input_tokens(usage), cached_tokens(usage)
        written = float(usage.get("cache_creation_input_tokens") or 0)
        output = float(usage.get("output_tokens") or usage.get("completion_tokens") or 0)
        parts = dict(zip(BILLED, (max(total - cached - written, 0.0), cached, written, output), strict=True))
        prices = keeper.compactor.model.prices
        units = parts["fresh"] + prices.read * cached + prices.write * written + prices.output * output
        dollars = prices.dollars(units)
        for kind, tokens in parts.items():
            keeper.figures.billed[kind] += tokens
            self.counts.billed.labels(kind).inc(tokens)
        keeper.figures.dollars += dollars
        self.counts.dollars.inc(dollars)


def _counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """Keep the numbers of a usage report only."""
    return {k: v for k, v in usage.items() if isinstance(v, int) and not isinstance(v, bool)}
