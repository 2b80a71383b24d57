"""The report's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]
OURS = {
    "balanced": "var(--ours)",
    "repair": "var(--ours2)",
    "architecture": "var(--ours3)",
    "literal": "var(--bad)",
}
"""Our policies and their colours; everyone else is drawn in one."""


def _table(rows: Sequence[Row], columns: Sequence[Column], *, name: str = "contender") -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title, _ in columns)
    body = []
    for row in rows:
        cells = []
        for _, cell in columns:
            text = cell(row)
            kind = ' class="bad"' if text.startswith("!") else ' class="note"' if text.startswith("…") else ""
            cells.append(f"<td{kind}>{escape(text.lstrip('!…'))}</td>")
        mine = ' class="ours"' if row[name] in OURS else ""
        shown = f"{row[name]} (void)" if row.get("void") else str(row[name])
        body.append(f"<tr{mine}><td>{escape(shown)}</td>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><tr><th>{name}</th>{head}</tr>{"".join(body)}</table></div>'


def figure(value: float | None, digits: int = 2) -> str:
    """Write a figure, a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def _estimate(key: str, digits: int = 2) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        e = row[key]
        return figure(e["value"], digits) + (f" [{e['low']:.2f}, {e['high']:.2f}]" if e["low"] is not None else "")

    return cell


def _share(key: str, digits: int = 3, *, should: float | None = None) -> Callable[[Row], str]:
    """Show a counted share with its n; what is not as it `should` be stands out."""

    def cell(row: Row) -> str:
        pair = row[key]
        if not pair:
            return "–"
        wrong = should is not None and abs(pair[0] - should) > 1e-9
        return f"{'!' if wrong else ''}{pair[0]:.{digits}f} / {pair[1]:.0f}"

    return cell


def _plain(key: str, digits: int = 2) -> Callable[[Row], str]:
    return lambda row: figure(row.get(key), digits)


def headline_table(rows: Sequence[Row]) -> str:
    """Show what was kept and what it cost, with intervals and n."""
    return _table(rows, [
        ("tokens", _plain("tokens")), ("SAR [95 %]", _estimate("sar")), ("n", lambda r: f"{r['sar']['n']:.0f}"),
        ("locators only", _share("sar_locators", 2)), ("older refs", _estimate("old")), ("chance", _plain("chance", 3)), ("edits", _estimate("edits")),
        ("n", lambda r: f"{r['edits']['n']:.0f}"), ("snapshot", _share("sar_snapshot", 2)),
        ("dollars [95 %]", _estimate("dollars")), ("worst", _plain("dollars_worst")), ("hits", _plain("hit_rate")),
        ("rewrites", _plain("rewrites", 1)), ("regret", _plain("regret")),
        ("SAR − balanced", _against("sar_against_balanced")), ("$ − balanced", _against("dollars_against_balanced")),
    ])  # fmt: skip


def _against(key: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        e = row.get(key)
        if not e or e["value"] is None:
            return ""
        return f"{e['value']:+.2f} (p {e['p_holm']:.3f})"

    return cell


def money_table(rows: Sequence[Row]) -> str:
    """Show dollars at every price vector: plain, with idle gaps, with a floor, with faults."""
    by_name: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["budget"] is None:
            by_name.setdefault(row["contender"], {})[row["vector"]] = row
    vectors = list(dict.fromkeys(r["vector"] for r in rows))
    columns: list[Column] = []
    for vector in vectors:
        columns.append((f"read {vector}", _at(vector, lambda r: figure(r["dollars"]["value"]))))
        columns.append(("worst", _at(vector, lambda r: figure(r["dollars_worst"]))))
        columns.append(("idle", _at(vector, lambda r: figure(r["dollars_idle"]))))
    columns.append(("with floor", _at(vectors[0], lambda r: figure(r["dollars_floor"]))))
    columns.append(("with faults", _at(vectors[0], lambda r: figure(r["dollars_faulty"]))))
    return _table([{"contender": name, "by": by} for name, by in by_name.items()], columns)


def _at(vector: str, cell: Callable[[Row], str]) -> Callable[[Row], str]:
    return lambda row: cell(row["by"][vector]) if vector in row["by"] else "–"


def state_table(rows: Sequence[Row]) -> str:
    """Show what must survive beside references, and what must not appear."""
    return _table(rows, [
        ("views with all rules", _share("rule_views", should=1.0)), ("rule lines", _share("rules", 4, should=1.0)),
        ("files F1", _plain("files_f1", 3)), ("failed attempts", _share("attempts", 2)),
        ("failing test", _share("failing_test", 2)), ("test status", _share("test_status", 2)),
        ("open todo", _share("todo", 2)), ("invented", _share("invented", 4, should=0.0)),
        ("stale", _share("stale", 3, should=0.0)), ("bare", _share("bare", 3)),
        ("search finds", _share("search", 2)), ("by chance", _share("search_by_chance", 2)),
    ])  # fmt: skip


def faults_table(rows: Sequence[Row]) -> str:
    """Show invalid views and faults, with the first of each; nothing is left out because of them."""
    bad = [r for r in rows if r["invalid_sessions"] or r["faulty_sessions"]]
    if not bad:
        return "<p>No contender gave an invalid view, and none failed.</p>"
    return _table(bad, [
        ("invalid requests", lambda r: f"{'!' if r['invalid_requests'] else ''}{r['invalid_requests']}"),
        ("in sessions", lambda r: str(r["invalid_sessions"])), ("for example", lambda r: "…" + r["problem"][:160]),
        ("sessions with a fault", lambda r: f"{'!' if r['faulty_sessions'] else ''}{r['faulty_sessions']}"),
        ("for example", lambda r: "…" + r["fault"][:160]),
    ])  # fmt: skip


def sessions_table(sessions: Sequence[Row]) -> str:
    """List every session that was played."""
    return _table(sessions, [
        ("source", lambda s: "…" + s["collection"]), ("task", lambda s: "…" + s["task"][:44]),
        ("requests", lambda s: str(s["rounds"])), ("tokens", lambda s: f"{s['tokens']:,}"),
        ("references", lambda s: str(s["references"])), ("outcome", lambda s: figure(s["outcome"])),
    ], name="id")  # fmt: skip
