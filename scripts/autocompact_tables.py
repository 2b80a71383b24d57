"""Tables of the line scorer and the archive for the benchmark page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from danshari import data

RESULTS = Path(__file__).parent.parent / "docs/results"


def stored(name: str) -> dict[str, Any]:
    """Read a stored result."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def scorer() -> str:
    """Write how the scorer does on repositories it was not trained on."""
    report = json.loads(data.scorer_text()[0])["report"]
    lines = [
        "| texts | order | AUC, all lines | AUC inside a session | needs in 10 % of the characters | 20 % | 35 % |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for family, found in report["families"].items():
        for label, row in found["rows"].items():
            recalls = " | ".join(f"{row[f'recall_{share}']:.2f}" for share in (10, 20, 35))
            lines.append(f"| {family} | {label} | {row['auc']:.3f} | {row['auc_inside']:.3f} | {recalls} |")
    counted = "; ".join(
        f"{family}: {f['lines']:,} lines of {f['sessions']} sessions, {f['needed']:,} needed later"
        for family, f in report["families"].items()
    )
    head = (
        f"{report['sessions']} sessions of {report['repositories']} repositories, {report['folds']} folds. {counted}."
    )
    return head + "\n\n" + "\n".join(lines)


def archive() -> str:
    """Write the archive's figures."""
    found = stored("archive")
    lines = ["| originals | put, a second | search p50 / p95 / max, ms | in one session p50 / p95 | by id p50 | text | on disk |",
             "|--:|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    for load in found["loads"]:
        a, b, c = load["search_ms"], load["search_session_ms"], load["get_ms"]
        lines.append(
            f"| {load['originals']:,} | {load['puts_per_second']:,.0f} | {a['p50']:.1f} / {a['p95']:.1f} / {a['max']:.0f} | "
            f"{b['p50']:.1f} / {b['p95']:.1f} | {c['p50']:.2f} | {load['text_mb']:,.0f} MB | {load['disk_mb']:,.0f} MB |"
        )
    kills, crowd = found["kills"], found["crowd"]
    lines.append(
        f"\nKilled {kills['kills']} times at random moments: of {kills['committed']:,} committed originals {kills['missing']} are missing, "
        f"{len(kills['problems'])} problems. {crowd['processes']} processes writing and searching at once: {crowd['written']:,} of "
        f"{crowd['expected']:,} originals, {crowd['failed']} failed, {len(crowd['problems'])} problems."
    )
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {"scorer": scorer, "archive": archive}
