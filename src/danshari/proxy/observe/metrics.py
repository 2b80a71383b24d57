"""Prometheus metrics of the proxy: sizes, reasons and prices, never content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from danshari.errors import MissingExtra

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError:
    raise MissingExtra("prometheus-client", "proxy") from None

if TYPE_CHECKING:
    from danshari.proxy.sessions.registry import SessionRegistry

_SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class ProxyMetrics:
    """All metrics of one proxy, in a registry of its own."""

    def __init__(self) -> None:
        """Register every metric."""
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"danshari_{name}", text, labels, registry=registry)

        self.requests = counter("requests", "Requests answered", "format", "status")
        self.untouched = counter("untouched", "Requests passed through unread", "why")
        self.reasons: dict[str, int] = {}
        """Why requests passed through unread → how many."""
        self.tokens = counter("tokens", "Estimated input tokens", "when")
        self.billed = counter("billed_tokens", "Tokens as providers reported them", "kind")
        self.dollars = counter("dollars", "Dollars by the price table, from reported usage")
        self.edits = counter("edits", "Edits committed", "trigger")
        self.faults = counter("faults", "Faults inside danshari; the client was served", "where")
        self.rescues = counter("rescues", "Requests refused as too long, compacted and sent again")
        self.recalls = counter("recalls", "Recalls answered by the proxy itself")
        self.disconnects = counter("disconnects", "Clients that left before the answer's end")
        self.broken = counter("broken", "Upstreams that could not be reached or broke off", "how")
        self.running = Gauge("danshari_running", "Requests being answered", registry=registry)
        self.sessions = Gauge("danshari_sessions", "Sessions kept ready", registry=registry)
        self.deciding = Histogram(
            "danshari_deciding_seconds",
            "Time danshari took before a request went on",
            buckets=_SECONDS_BUCKETS,
            registry=registry,
        )

    def count_untouched(self, why: str) -> None:
        """Count a request that passes through unread."""
        self.untouched.labels(why).inc()
        self.reasons[why] = self.reasons.get(why, 0) + 1

    def render(self, sessions: SessionRegistry) -> bytes:
        """Return all metrics in the Prometheus text format."""
        self.sessions.set(len(sessions))
        made: bytes = generate_latest(self.registry)
        return made
