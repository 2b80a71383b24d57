"""OpenTelemetry spans in the GenAI conventions, without content; none if the package is not installed.

Spans go to the tracer of the process, such as that of `opentelemetry-instrument danshari proxy`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from danshari.formats.usage import cache_read_tokens, input_tokens

try:
    from opentelemetry import trace
except ImportError:  # the extra `obs` is not installed: no spans
    trace = None  # type: ignore[assignment]

_SYSTEMS = {"anthropic": "anthropic", "openai-chat": "openai", "openai-responses": "openai"}


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

    def set_usage(self, usage: Mapping[str, Any]) -> None:
        """Set the billed token counts."""
        output = usage.get("output_tokens") or usage.get("completion_tokens")
        self.set(gen_ai__usage__input_tokens=int(input_tokens(usage)),
                 gen_ai__usage__cached_tokens=int(cache_read_tokens(usage)),
                 gen_ai__usage__output_tokens=int(output) if isinstance(output, int) else None)  # fmt: skip


@contextlib.contextmanager
def trace_request(format_name: str, model: str) -> Iterator[TraceSpan]:
    """Trace one request to a model."""
    if trace is None:
        yield TraceSpan()
        return
    tracer = trace.get_tracer("danshari.proxy")
    with tracer.start_as_current_span(f"chat {model}".strip(), kind=trace.SpanKind.CLIENT) as inner:
        made = TraceSpan(inner)
        made.set(gen_ai__operation__name="chat", gen_ai__provider__name=_SYSTEMS.get(format_name),
                 gen_ai__request__model=model or None)  # fmt: skip
        yield made
