"""Run ctxdrift, which audits the compaction in a transcript: messages before, summary, calls after."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctxdrift

from danshari.formats import find_format
from danshari_bench.compactions import compact_text, read_records


def kit_records(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield one transcript record per text, call and result."""
    wire = find_format("anthropic")
    for message in messages:
        for piece in wire.split(message):
            if piece.kind == "call":
                use = {"type": "tool_use", "name": piece.name, "input": json.loads(piece.text or "{}")}
                yield {"role": "assistant", "content": [use]}
            elif piece.kind == "result":
                yield {"type": "tool_result", "content": piece.text}
            elif piece.kind == "text":
                yield {"role": piece.role, "content": piece.text}


def count_findings(before: list[Any], text: str, after: list[Any]) -> Counter[str]:
    """Return the number of audit findings by severity."""
    mark = {"role": "user", "content": "[CONTEXT COMPACTION]\n" + text}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False, encoding="utf-8") as file:
        file.write("".join(json.dumps(x) + "\n" for x in [*kit_records(before), mark, *kit_records(after)]))
    events = ctxdrift.parse_jsonl(file.name)
    Path(file.name).unlink()
    return Counter(str(f.severity) for f in ctxdrift.analyze(events, ctxdrift.find_compactions(events)))


def main() -> None:
    """Audit every record with danshari's text and with the recorded summary, and print the findings as JSON."""
    found: dict[str, Counter[str]] = {"danshari": Counter(), "own": Counter()}
    records = list(read_records([Path(sys.argv[1])]))
    for record in records:
        found["danshari"] += count_findings(
            record.before, compact_text(record.before, len(record.summary)), record.after
        )
        found["own"] += count_findings(record.before, record.summary, record.after)
    sys.stdout.write(json.dumps({"kit": "ctxdrift", "records": len(records), "findings": found}) + "\n")


if __name__ == "__main__":
    main()
