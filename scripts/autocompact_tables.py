"""Tables of line scorer, archive, ablation, search, proxies and agents for the benchmark page."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from danshari import data

RESULTS = Path(__file__).parent.parent / "docs/results"


def load_result(name: str) -> dict[str, Any]:
    """Load a stored result of docs/results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def scorer() -> str:
    """Return the table of the line scorer on repositories it was not trained on."""
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
    """Return the table of the archive's load tests."""
    found = load_result("archive")
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


def ablation() -> str:
    """Return the table of what each part of `balanced` contributes."""
    found = load_result("ablation")
    by: dict[str, dict[str, Any]] = {}
    for row in found["rows"]:
        by.setdefault(row["variant"], {})[row["vector"]] = row
    lines = [
        f"{found['sessions']} sessions of {found['tasks']} tasks; in brackets the difference to `balanced` as it is; bold: its 95 % interval, "
        "resampled by task, leaves out zero.",
        "",
        "| what is off | tokens | SAR | edits | hot | $ at .10 | $ at .025 |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, rows in by.items():
        first, low = rows[".10"], rows[".025"]
        label = "nothing" if name == found["policy"] else first["about"]
        cells = [_format_change(first, m, 3 if m == "hot" else 2) for m in ("tokens", "sar", "edits", "hot", "dollars")]
        lines.append(f"| {label} | {' | '.join(cells)} | {_format_change(low, 'dollars', 2)} |")
    return "\n".join(lines)


def _format_change(row: dict[str, Any], measure: str, digits: int) -> str:
    change = row.get(f"{measure}_change")
    shown = f"{row[measure]:.{digits}f}"
    if change is None:
        return shown
    told = f"{change['value']:+.{digits + 1}f}"
    sure = change["low"] is not None and (change["low"] > 0 or change["high"] < 0)
    return f"{shown} (**{told}**)" if sure else f"{shown} ({told})"


def ladder() -> str:
    """Return the table of what one blind search finds, by kind of query."""
    lines = ["| policy | all | " + " | ".join(KINDS) + " |", "|---|" + "--:|" * (len(KINDS) + 1)]
    for name, row in load_result("ladder")["rows"].items():
        cells = []
        for kind in ("", *(f"_{k}" for k in KINDS)):
            found, chance = row.get(f"search{kind}"), row.get(f"search{kind}_by_chance")
            cells.append(f"{found[0]:.2f} of {found[1]:.0f} ({chance[0]:.2f})" if found else "none")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


KINDS = ("identifier", "path", "command", "number", "words", "chinese")


def queries() -> str:
    """Return the table of how often searches find archived originals, by kind of query."""
    found = load_result("queries")
    lines = ["| query | n | among the first three | first | by chance |", "|---|--:|--:|--:|--:|"]
    for kind, row in found["kinds"].items():
        lines.append(f"| {kind} | {row['n']} | {row['three']:.2f} | {row['first']:.2f} | {row['chance']:.3f} |")
    return f"{found['originals']:,} originals of {found['sessions']} sessions.\n\n" + "\n".join(lines)


def proxies() -> str:
    """Return the table of the proxy load tests."""
    rows = load_result("proxies")["rows"]
    direct = rows[0]
    lines = [
        "| proxy | 10k tokens, p50 / p99 ms | 200k | 1M | added at 200k, p50 | requests/s | per CPU second | streams whole | MB | MB a session |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = [f"{_median(row[n]):.1f} / {_percentile_99(row[n]):.1f}" for n in ("10k", "200k", "1M")]
        per = f"{row['per_cpu_second']:,.0f}" if row["per_cpu_second"] else "–"
        lines.append(
            f"| {row['name']} | {' | '.join(cells)} | {_median(row['200k']) - _median(direct['200k']):.1f} | {row['per_second']:,.0f} | {per} | "
            f"{row['streams']['whole']}/{row['streams']['streams']} | {row['resident_mb']:.0f} | {row['mb_per_session']:.1f} |"
        )
    return f"n {len(direct['200k'])} requests a figure, {len(direct['1M'])} at 1M.\n\n" + "\n".join(lines)


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _percentile_99(values: list[float]) -> float:
    return sorted(values)[min(int(0.99 * len(values)), len(values) - 1)]


def agents() -> str:
    """Return the table of real agents run through the proxy."""
    lines = ["| agent | way | rounds | requests | bytes of the last request | bytes in all | input units | refused | exit |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    for row in load_result("agents")["rows"]:
        lines.append(
            f"| {row['agent']} | {row['how']} | {row['rounds']} | {row['requests']} | {row['bytes_last']:,} | {row['bytes_all']:,} | "
            f"{row['units']:,} | {row['refused']} | {row['exit']} |"
        )
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "scorer": scorer, "archive": archive, "ablation": ablation, "ladder": ladder, "queries": queries, "proxies": proxies,
    "agents": agents,
}  # fmt: skip
