"""ctxdrift: writes before, our text and after as a transcript and lets the kit audit the compaction between them."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctxdrift

from danshari.formats import named
from danshari_bench.compactions import compact_text, read_records


def lines(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """Give one record per call, as the kit reads them."""
    wire = named("anthropic")
    for message in messages:
        for piece in wire.split(message):
            if piece.kind == "call":
                use = {"type": "tool_use", "name": piece.name, "input": json.loads(piece.text or "{}")}
                yield {"role": "assistant", "content": [use]}
            elif piece.kind == "result":
                yield {"type": "tool_result", "content": piece.text}
            elif piece.kind == "text":
                yield {"role": piece.role, "content": piece.text}


def audit(before: list[Any], text: str, after: list[Any]) -> Counter[str]:
    """Count the findings by severity."""
    mark = {"role": "user", "content": "[CONTEXT COMPACTION]\n" + text}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False, encoding="utf-8") as file:
        file.write("".join(json.dumps(x) + "\n" for x in [*lines(before), mark, *lines(after)]))
    events = ctxdrift.parse_jsonl(file.name)
    Path(file.name).unlink()
    return Counter(str(f.severity) for f in ctxdrift.analyze(events, ctxdrift.find_compactions(events)))


def main() -> None:
    """Audit every record twice: with our text, and with the summary the agent wrote."""
    found: dict[str, Counter[str]] = {"danshari": Counter(), "own": Counter()}
    records = list(read_records([Path(sys.argv[1])]))
    for record in records:
        found["danshari"] += audit(record.before, compact_text(record.before, len(record.summary)), record.after)
        found["own"] += audit(record.before, record.summary, record.after)
    sys.stdout.write(json.dumps({"kit": "ctxdrift", "records": len(records), "findings": found}) + "\n")


if __name__ == "__main__":
    main()
