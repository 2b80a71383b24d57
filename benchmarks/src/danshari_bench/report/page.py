"""The HTML report of a comparison: charts first, then tables; one file without scripts or network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from danshari_bench.report.chart import (
    WIDE_SIZE,
    Axis,
    Bar,
    Series,
    draw_scatter,
    draw_stacked_bars,
)
from danshari_bench.report.tables import (
    POLICY_COLOURS,
    faults_table,
    headline_table,
    money_table,
    sessions_table,
    state_table,
)

ReportRow = Mapping[str, Any]
_BANDS = (("hot", "up to 3 rounds old"), ("warm", "4–10"), ("cold", "over 10"))
_LADDER = {"supported": "var(--s)", "pointer": "var(--p)", "retrieved": "var(--r)", "lost": "var(--l)"}


def write_report(found: Mapping[str, Any]) -> str:
    """Return the HTML page for a result of `compare_contenders`. Raises ValueError if it has no rows."""
    groups = list(dict.fromkeys(r["group"] for r in found["rows"]))
    if not groups:
        raise ValueError("the result holds no rows")
    rows = [r for r in found["rows"] if r["group"] == groups[0]]
    first = rows[0]
    title = "danshari: what the agent needed next, and what it cost"
    subtitle = (
        f"{groups[0]}: {first['sessions']} sessions, {first['requests']} requests; {len(found['sessions'])} sessions in "
        f"all · commit {found['commit']} · atoms {found['atoms']['variant']} {found['atoms']['version']} "
        f"({found['atoms']['hash']})"
    )
    body = [_draw_plots(rows, found), _draw_bars(rows), *_tables(found, groups, rows), _limitations(found)]
    return Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8")).substitute(
        title=title, subtitle=escape(subtitle), lead=_summary_text(rows), body="\n".join(body)
    )


def _summary_text(rows: Sequence[ReportRow]) -> str:
    mine = [r for r in rows if r["contender"] == "balanced" and r["budget"] is None]
    if not mine:
        return "Every contender lived through every session round by round; doing nothing is 1 in every figure."
    cheap, dear = mine[-1], mine[0]
    return (
        "Every contender lived through every session round by round; doing nothing is 1 in every figure. "
        f"<b>balanced</b> sends {dear['tokens']:.2f} of the tokens for {dear['dollars']['value']:.2f} of the input dollars "
        f"at cache read {dear['vector']} ({cheap['dollars']['value']:.2f} at {cheap['vector']}), and "
        f"{_percent(dear['sar']['value'])} of the actions that needed something older than three rounds still had all of "
        f"it in front of them ({_percent(cheap['sar']['value'])} at {cheap['vector']})."
    )


def _percent(value: float | None) -> str:
    return "no" if value is None else f"{100 * value:.0f} %"


def _colour(name: str) -> str:
    return POLICY_COLOURS.get(name, "var(--peer)")


def _draw_plots(rows: Sequence[ReportRow], found: Mapping[str, Any]) -> str:
    """Return the charts of SAR against tokens and against dollars."""
    bound = next((b for b in found["bounds"] if b["group"] == rows[0]["group"]), None)
    axis = Axis(title="actions with all they needed (SAR)", low=0.2)
    still = [
        r["contender"] for r in _default_rows(rows) if r["contender"] != "off" and not r["void"] and _does_nothing(r)
    ]
    void = [r["contender"] for r in _default_rows(rows) if r["void"]]
    valid = [r for r in rows if r["contender"] not in void]
    moved = [r for r in valid if r["budget"] is not None or not _does_nothing(r) or r["contender"] == "off"]
    tokens = draw_scatter(
        [*_bounds_series(bound), *_series(moved, lambda r: r["tokens"], "first")],
        Axis(title="tokens sent, of doing nothing"), axis, title="SAR against tokens", size=WIDE_SIZE,
    )  # fmt: skip
    note = f" Like doing nothing at their own triggers: {', '.join(still)}." if still else ""
    note += f" Void, for a view was invalid or it could not be started: {', '.join(void)}." if void else ""
    first = _figure_html(tokens, "Rings: own defaults at cache read .10. Small dots joined: the same contender told to stay below "
                    "10, 20, 30, 50 and 70 % of the session's largest context. Dashed: lines kept at random, and the newest "
                    f"only. The line at the left: what a clairvoyant would need to keep.{note}")  # fmt: skip
    figures = []
    for vector in [v for v in (".10", ".025") if any(r["vector"] == v for r in rows)]:
        chart = draw_scatter(
            _series([r for r in moved if r["vector"] == vector and r["budget"] is None], _dollars, vector),
            Axis(title=f"input dollars, of doing nothing (cache read {vector})", high=2.0,
                 ticks=(0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2)),
            axis, title=f"SAR against dollars at {vector}",
        )  # fmt: skip
        figures.append(_figure_html(chart, f"Cache read {vector}. Right of 1 a contender costs more than doing nothing; beyond "
                                      "2 it stands at the edge."))  # fmt: skip
    return f'<h2>Kept, against sent and paid</h2>{first}<div class="plots">{"".join(figures)}</div>'


def _does_nothing(row: ReportRow) -> bool:
    return abs(row["tokens"] - 1) < 0.005 and row["sar"]["value"] in (None, 1.0)


def _dollars(row: ReportRow) -> float:
    value: float = row["dollars"]["value"]
    return value


def _figure_html(chart: str, caption: str) -> str:
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def _series(rows: Sequence[ReportRow], x: Any, vector: str) -> list[Series]:
    """Return the chart series of each contender: the curve over budgets and the point at its defaults."""
    made = []
    for name in dict.fromkeys(r["contender"] for r in rows):
        mine = [r for r in rows if r["contender"] == name and r["sar"]["value"] is not None]
        curve = sorted((x(r), r["sar"]["value"]) for r in mine if r["budget"] is not None)
        own = [r for r in mine if r["budget"] is None and vector in ("first", r["vector"])][:1]
        points = [*curve, *((x(r), r["sar"]["value"]) for r in own)]
        if curve:
            made.append(Series(name=name, points=curve, colour=_colour(name), line=True, label=False))
        if own:
            made.append(Series(name=name, points=points[-1:], colour=_colour(name), ring=True))
        elif curve:
            made.append(Series(name=name, points=curve[2:3] or curve[:1], colour=_colour(name), marks=False))
    return made


def _bounds_series(bound: ReportRow | None) -> list[Series]:
    """Return the chart series of the bounds: random lines, newest lines, clairvoyant."""
    if bound is None:
        return []
    made = []
    for name, text in (("chance", "random lines"), ("recency", "newest only")):
        points = [(float(b), v["sar"]) for b, v in bound[name].items() if v["sar"] is not None]
        made.append(Series(name=text, points=[*points, (1.0, 1.0)], colour="var(--bound)", line=True, dashed=True,
                           marks=False, label=False))  # fmt: skip
        if points:
            made.append(Series(name=text, points=points[2:3] or points[:1], colour="var(--bound)", marks=False))
    at = bound["clairvoyant_tokens"]
    made.append(Series(name="clairvoyant", points=[(at, 0.2), (at, 1.0)], colour="var(--bound)", line=True))
    return made


def _draw_bars(rows: Sequence[ReportRow]) -> str:
    """Return the chart of supported, pointer, retrieved and lost references, and the table by age."""
    own = _default_rows(rows)
    ladder, bands = [], []
    for row in own:
        total = sum(row[k][1] for k, _ in _BANDS if row[k])
        if not total:
            continue
        kept = sum(row[k][0] * row[k][1] for k, _ in _BANDS if row[k]) / total
        rungs = [(n, row[n][0] * (1 - kept) if row[n] else 0.0) for n in ("pointer", "retrieved", "lost")]
        ladder.append(Bar(name=row["contender"], parts=[("supported", kept), *rungs]))
        bands.append((row["contender"], [row[k][0] if row[k] else None for k, _ in _BANDS]))
    if not ladder:
        return "<h2>Where lost references went</h2><p>No action referred to anything seen before.</p>"
    least = max(0.0, min(b.parts[0][1] for b in ladder) - 0.05)
    chart = draw_stacked_bars(ladder, _LADDER, title="credit ladder", least=round(least, 1))
    head = "".join(f"<th>{escape(text)}</th>" for _, text in _BANDS)
    body = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{'–' if v is None else f'{v:.3f}'}</td>" for v in values)
        + "</tr>"
        for name, values in bands
    )
    n = ", ".join(f"{text}: {own[0][k][1]:.0f}" for k, text in _BANDS if own[0][k])
    return (
        '<h2>Where lost references went</h2><div class="plots">'
        + _figure_html(chart, "Every reference at cache read .10. Supported: on a line that carries it. Pointer: its source is "
                  "still named and unchanged, one call away. Retrieved: one blind search finds it. Lost: none of these. "
                  "Only what is supported is free; the rest costs a round.")
        + f"<figure><table><tr><th>supported, by age</th>{head}</tr>{body}</table><figcaption>References by age ({n})."
        "</figcaption></figure></div>"
    )  # fmt: skip


def _default_rows(rows: Sequence[ReportRow]) -> list[ReportRow]:
    """Return each contender's row at its defaults and the first price vector it has."""
    seen: dict[str, ReportRow] = {}
    for row in rows:
        if row["budget"] is None:
            seen.setdefault(row["contender"], row)
    return list(seen.values())


def _tables(found: Mapping[str, Any], groups: Sequence[str], rows: Sequence[ReportRow]) -> list[str]:
    own = _default_rows(rows)
    made = ["<h2>Pooled</h2>", headline_table(own), "<h2>Dollars at four price vectors</h2>", money_table(rows)]
    made += ["<h2>State, rules and honesty</h2>", state_table(own), "<h2>What went wrong</h2>", faults_table(own)]
    made.append("<h2>By source</h2>")
    for group in groups[1:]:
        mine = [r for r in found["rows"] if r["group"] == group]
        summary = f"{escape(group)}: {mine[0]['sessions']} sessions, {mine[0]['requests']} requests"
        made.append(f"<details{' open' if group == groups[2:3] else ''}><summary>{summary}</summary>"
                    f"{headline_table(_default_rows(mine))}{money_table(mine)}</details>")  # fmt: skip
    made.append(f"<details><summary>All sessions</summary>{sessions_table(found['sessions'])}</details>")
    return made


def _limitations(found: Mapping[str, Any]) -> str:
    """Return the section on what the figures cannot show, and the reading notes."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in found["notes"])
    return (
        "<h2>What these figures cannot show</h2><p>They see only what reaches the arguments of tool calls: understanding, "
        "reasons and style are invisible. The recorded future is that of an agent that lost nothing (or only what its own "
        "compaction lost), so it over-states need and under-states adaptation; a shorter context may even help, and that "
        "is not credited. SAR is not a solve rate. Output tokens are left out, as they are the same for every contender. "
        f"No system prompt or tool schemas are in most recordings; <i>with floor</i> assumes {found['floor_tokens']:,.0f} "
        "tokens of them.</p>"
        + (
            f"<details><summary>{len(found['notes'])} notes from reading</summary><ul>{notes}</ul></details>"
            if notes
            else ""
        )
    )
