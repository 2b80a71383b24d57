"""Reduce benchmark results to what the pages print.

Usage: `python scripts/keep_results.py NAME RESULT.json [...]`.

NAME is sessions, long, atoms (several results, one per variant), compactions (strict, then other
variants), handover, falsify or kits. Per-session data and budgets by source are dropped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "docs/results"
FIELDS = (
    "group", "contender", "vector", "budget", "sessions", "requests", "tokens", "sar", "sar_locators", "edits", "old", "old_locators",
    "old_content", "old_corrected", "hot", "warm", "cold", "chance", "dollars", "dollars_worst", "dearer_sessions",
    "dollars_idle", "dollars_floor", "dollars_faulty", "hit_rate", "rewrites", "rule_views", "files_f1", "attempts",
    "failing_test", "test_status", "todo", "invented", "stale", "bare", "pointer", "retrieved", "lost", "search",
    "search_by_chance", "sar_snapshot", "sar_after_commit", "regret", "void", "invalid_sessions", "faulty_sessions", "fault", "problem",
    "sar_against_balanced", "dollars_against_balanced",
)  # fmt: skip
VARIANT_METHODS = ("own", "newest-lines", "danshari")
"""Methods whose figures are kept under other definitions of an atom."""
BRIEF_FIELDS = ("group", "contender", "vector", "sessions", "requests", "tokens", "sar", "edits", "hot", "dollars", "dollars_worst",
         "dearer_sessions")  # fmt: skip


def keep_sessions(found: dict[str, Any]) -> dict[str, Any]:
    """Return the headline group in full and one row per contender of the other groups."""
    head = found["rows"][0]["group"]
    rows = []
    seen: set[tuple[str, str]] = set()
    for row in found["rows"]:
        if row["group"] == head:
            rows.append({k: row[k] for k in FIELDS if k in row})
        elif row["budget"] is None and (row["group"], row["contender"]) not in seen:
            seen.add((row["group"], row["contender"]))
            rows.append({k: row[k] for k in BRIEF_FIELDS})
    kept = {k: found[k] for k in ("format", "commit", "atoms", "floor_tokens", "contenders", "timing")}
    return {**kept, "played": len(found["sessions"]), "bounds": found["bounds"], "rows": rows}


def keep_atoms(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the headline figures of every atom variant."""
    kept = {}
    for found in results:
        head = found["rows"][0]["group"]
        rows: dict[str, Any] = {}
        for row in found["rows"]:
            if row["group"] == head and row["budget"] is None:
                rows.setdefault(row["contender"], {k: row[k] for k in ("sar", "old", "edits", "chance")})
        kept[found["atoms"]["variant"]] = rows
    return kept


def main() -> None:
    """Write one file into docs/results."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    name, results = sys.argv[1], [json.loads(Path(p).read_text(encoding="utf-8")) for p in sys.argv[2:]]
    if name in ("sessions", "long"):
        value: Any = keep_sessions(results[0])
    elif name == "atoms":
        value = keep_atoms(results)
    elif name == "compactions":
        brief = ("method", "share", "all", "locators", "every", "bare")
        value = results[0]
        value["variants"] = {
            r["atoms"]["variant"]: [{k: row[k] for k in brief} for row in r["rows"] if row["method"] in VARIANT_METHODS]
            for r in results[1:]
        }
    elif name == "kits":
        value = {Path(p).stem: r for p, r in zip(sys.argv[2:], results, strict=True)}
    else:
        value = results[0]
    target = RESULTS / f"{name}.json"
    target.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{target.name}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
