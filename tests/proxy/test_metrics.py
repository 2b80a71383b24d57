"""Metrics, spans and the status page."""

from __future__ import annotations

import json

from tests.support.command_line import run_danshari
from tests.support.proxy import Pair, body_of, make_pair, round_by_round, work


def test_spans_carry_sizes_and_no_content(pair: Pair) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    caught, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(caught))
    trace.set_tracer_provider(provider)
    round_by_round(pair, "anthropic", work(3, "anthropic"), x_api_key="sk-own")
    span = caught.get_finished_spans()[-1]
    attributes = dict(span.attributes or {})
    assert span.name == "chat claude-opus-4-5"
    assert attributes["gen_ai.provider.name"] == "anthropic"
    assert attributes["gen_ai.usage.output_tokens"] == 20
    assert attributes["danshari.tokens_before"] > attributes["danshari.tokens_after"] > 0
    assert "module_1_7" not in str(attributes)
    assert "sk-own" not in str(attributes)


def test_a_clients_words_are_no_metric() -> None:
    for pair in make_pair():
        field = {"context_management": {"edits": [{"type": "my-secret-one"}]}}
        _, headers, _ = pair.client.post("/v1/messages", {**body_of("anthropic", work(3, "anthropic")), **field})
        assert "my-secret-one" not in str(headers)
        client = pair.client
        client.connection.request("GET", "/metrics")
        assert b"my-secret-one" not in client.connection.getresponse().read()


def test_status_shows_sessions() -> None:
    for pair in make_pair():
        round_by_round(pair, "anthropic", work(6, "anthropic"), user_agent="claude-cli/2.1")
        shown = run_danshari("status", "--url", pair.here).stdout
        assert "claude-opus-4-5" in shown
        assert "first sight" in shown
        rows = json.loads(run_danshari("status", "--url", pair.here, "--json").stdout)["sessions"]
        assert rows[0]["client"] == "claude"
        assert rows[0]["before"] > rows[0]["after"]
        assert rows[0]["billed"]["output"] > 0
