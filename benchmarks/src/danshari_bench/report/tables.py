"""The HTML tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

TableRow = Mapping[str, Any]
TableColumn = tuple[str, Callable[[TableRow], str]]
POLICY_COLOURS = {
    "balanced": "var(--ours)",
    "repair": "var(--ours2)",
    "architecture": "var(--ours3)",
    "literal": "var(--bad)",
}
"""Our policies and their colours; everyone else is drawn in one."""


def _html_table(rows: Sequence[TableRow], columns: Sequence[TableColumn], *, name: str = "contender") -> str:
    """Return an HTML table; cells that start with "!" are marked as bad, with "…" as notes."""
    head = "".join(f"<th>{escape(title)}</th>" for title, _ in columns)
    body = []
    for row in rows:
        cells = []
        for _, cell in columns:
            text = cell(row)
            kind = ' class="bad"' if text.startswith("!") else ' class="note"' if text.startswith("…") else ""
            cells.append(f"<td{kind}>{escape(text.lstrip('!…'))}</td>")
        mine = ' class="ours"' if row[name] in POLICY_COLOURS else ""
        shown = f"{row[name]} (void)" if row.get("void") else str(row[name])
        body.append(f"<tr{mine}><td>{escape(shown)}</td>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><tr><th>{name}</th>{head}</tr>{"".join(body)}</table></div>'


def format_figure(value: float | None, digits: int = 2) -> str:
    """Return a figure as text, or a dash if it is missing."""
    return "–" if value is None else f"{value:.{digits}f}"


def _estimate_cell(key: str, digits: int = 2) -> Callable[[TableRow], str]:
    def cell(row: TableRow) -> str:
        e = row[key]
        return format_figure(e["value"], digits) + (
            f" [{e['low']:.2f}, {e['high']:.2f}]" if e["low"] is not None else ""
        )

    return cell


def _share_cell(key: str, digits: int = 3, *, should: float | None = None) -> Callable[[TableRow], str]:
    """Return a column function that shows a share with its n and marks values that differ from `should`."""

    def cell(row: TableRow) -> str:
        pair = row[key]
        if not pair:
            return "–"
        wrong = should is not None and abs(pair[0] - should) > 1e-9
        return f"{'!' if wrong else ''}{pair[0]:.{digits}f} / {pair[1]:.0f}"

    return cell


def _plain_cell(key: str, digits: int = 2) -> Callable[[TableRow], str]:
    return lambda row: format_figure(row.get(key), digits)


def headline_table(rows: Sequence[TableRow]) -> str:
    """Return the table of what was kept and what it cost, with intervals and n."""
    return _html_table(rows, [
        ("tokens", _plain_cell("tokens")), ("SAR [95 %]", _estimate_cell("sar")), ("n", lambda r: f"{r['sar']['n']:.0f}"),
        ("locators only", _share_cell("sar_locators", 2)), ("older refs", _estimate_cell("old")), ("chance", _plain_cell("chance", 3)), ("edits", _estimate_cell("edits")),
        ("n", lambda r: f"{r['edits']['n']:.0f}"), ("snapshot", _share_cell("sar_snapshot", 2)),
        ("dollars [95 %]", _estimate_cell("dollars")), ("worst", _plain_cell("dollars_worst")), ("hits", _plain_cell("hit_rate")),
        ("rewrites", _plain_cell("rewrites", 1)), ("regret", _plain_cell("regret")),
        ("SAR − balanced", _difference_cell("sar_against_balanced")), ("$ − balanced", _difference_cell("dollars_against_balanced")),
    ])  # fmt: skip


def _difference_cell(key: str) -> Callable[[TableRow], str]:
    def cell(row: TableRow) -> str:
        e = row.get(key)
        if not e or e["value"] is None:
            return ""
        return f"{e['value']:+.2f} (p {e['p_holm']:.3f})"

    return cell


def money_table(rows: Sequence[TableRow]) -> str:
    """Return the table of dollars at every price vector: plain, worst, idle gaps, with floor, with faults."""
    by_name: dict[str, dict[str, TableRow]] = {}
    for row in rows:
        if row["budget"] is None:
            by_name.setdefault(row["contender"], {})[row["vector"]] = row
    vectors = list(dict.fromkeys(r["vector"] for r in rows))
    columns: list[TableColumn] = []
    for vector in vectors:
        columns.append((f"read {vector}", _vector_cell(vector, lambda r: format_figure(r["dollars"]["value"]))))
        columns.append(("worst", _vector_cell(vector, lambda r: format_figure(r["dollars_worst"]))))
        columns.append(("idle", _vector_cell(vector, lambda r: format_figure(r["dollars_idle"]))))
    columns.append(("with floor", _vector_cell(vectors[0], lambda r: format_figure(r["dollars_floor"]))))
    columns.append(("with faults", _vector_cell(vectors[0], lambda r: format_figure(r["dollars_faulty"]))))
    return _html_table([{"contender": name, "by": by} for name, by in by_name.items()], columns)


def _vector_cell(vector: str, cell: Callable[[TableRow], str]) -> Callable[[TableRow], str]:
    return lambda row: cell(row["by"][vector]) if vector in row["by"] else "–"


def state_table(rows: Sequence[TableRow]) -> str:
    """Return the table of rules, files, failures and todo items kept, and of invented and stale content."""
    return _html_table(rows, [
        ("views with all rules", _share_cell("rule_views", should=1.0)), ("rule lines", _share_cell("rules", 4, should=1.0)),
        ("files F1", _plain_cell("files_f1", 3)), ("failed attempts", _share_cell("attempts", 2)),
        ("failing test", _share_cell("failing_test", 2)), ("test status", _share_cell("test_status", 2)),
        ("open todo", _share_cell("todo", 2)), ("invented", _share_cell("invented", 4, should=0.0)),
        ("stale", _share_cell("stale", 3, should=0.0)), ("bare", _share_cell("bare", 3)),
        ("search finds", _share_cell("search", 2)), ("by chance", _share_cell("search_by_chance", 2)),
    ])  # fmt: skip


def faults_table(rows: Sequence[TableRow]) -> str:
    """Return the table of invalid views and faults, with the first example of each."""
    bad = [r for r in rows if r["invalid_sessions"] or r["faulty_sessions"]]
    if not bad:
        return "<p>No contender gave an invalid view, and none failed.</p>"
    return _html_table(bad, [
        ("invalid requests", lambda r: f"{'!' if r['invalid_requests'] else ''}{r['invalid_requests']}"),
        ("in sessions", lambda r: str(r["invalid_sessions"])), ("for example", lambda r: "…" + r["problem"][:160]),
        ("sessions with a fault", lambda r: f"{'!' if r['faulty_sessions'] else ''}{r['faulty_sessions']}"),
        ("for example", lambda r: "…" + r["fault"][:160]),
    ])  # fmt: skip


def sessions_table(sessions: Sequence[TableRow]) -> str:
    """Return the table of all sessions."""
    return _html_table(sessions, [
        ("source", lambda s: "…" + s["collection"]), ("task", lambda s: "…" + s["task"][:44]),
        ("requests", lambda s: str(s["rounds"])), ("tokens", lambda s: f"{s['tokens']:,}"),
        ("references", lambda s: str(s["references"])), ("outcome", lambda s: format_figure(s["outcome"])),
    ], name="id")  # fmt: skip
