"""The tables of docs/benchmarks.md, from the JSON that the commands wrote into docs/results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "docs/results"
VECTORS = (".10", ".05", ".025", ".02")
Row = dict[str, Any]


def load_result(name: str) -> Any:
    """Load a stored result of docs/results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; all columns but the first `left` are right-aligned."""
    bars = ["---"] * left + ["--:"] * (len(head) - left)
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(bars) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(r) + " |" for r in rows)]) + "\n"


def format_figure(value: float | None, digits: int = 2) -> str:
    """Return a figure as text, empty if it is missing."""
    return "" if value is None else f"{value:.{digits}f}"


def format_estimate(e: Row) -> str:
    """Return an estimate with its 95 % interval as text."""
    return format_figure(e["value"]) + (f" [{e['low']:.2f}, {e['high']:.2f}]" if e["low"] is not None else "")


def _format_share(row: Row, key: str, digits: int = 2) -> str:
    return format_figure(row[key][0], digits) if row.get(key) else ""


def default_rows(found: Row) -> dict[str, dict[str, Row]]:
    """Return contender → price vector → its row at its defaults, in the headline group."""
    head = found["rows"][0]["group"]
    rows: dict[str, dict[str, Row]] = {}
    for row in found["rows"]:
        if row["group"] == head and row.get("budget") is None:
            rows.setdefault(row["contender"], {})[row["vector"]] = row
    return rows


def headline(name: str) -> str:
    """Return the table of what was kept, and dollars at four price vectors."""
    rows = []
    for contender, by in default_rows(load_result(name)).items():
        r = next(iter(by.values()))
        worst = max(x["dollars_worst"] for x in by.values())
        rows.append([f"`{contender}`", format_figure(r["tokens"]), format_estimate(r["sar"]), _format_share(r, "sar_locators"), format_estimate(r["edits"]),
                     _format_share(r, "hot", 3), *(format_figure(by[v]["dollars"]["value"]) if v in by else "" for v in VECTORS), format_figure(worst),
                     format_figure(r["hit_rate"]), format_figure(r["rewrites"], 1), str(r["invalid_sessions"] + r["faulty_sessions"])])  # fmt: skip
    return table(["contender", "tokens", "SAR", "locators", "edits", "hot", "$ .10", "$ .05", "$ .025", "$ .02", "worst", "hits",
                  "rewrites", "bad"], rows)  # fmt: skip


def counts(name: str) -> str:
    """Return a sentence on how many sessions, requests, actions and edits the headline counts."""
    found = load_result(name)
    r = found["rows"][0]
    return (f"{r['group']}: {r['sessions']} sessions, {r['requests']:,} requests, {r['sar']['n']:.0f} actions with an older "
            f"reference in {r['sar']['tasks']} tasks, {r['edits']['n']:.0f} edits; {found['played']} sessions in all. Commit "
            f"{found['commit']}, atoms version {found['atoms']['version']} ({found['atoms']['hash']}).")  # fmt: skip


def differences(name: str) -> str:
    """Return the table of paired differences to balanced at cache read .10, with p-values after Holm."""
    rows = []
    for contender, by in default_rows(load_result(name)).items():
        r = by.get(".10", {})
        if "sar_against_balanced" in r:
            sar, money = r["sar_against_balanced"], r["dollars_against_balanced"]
            rows.append([f"`{contender}`", f"{sar['value']:+.2f} [{sar['low']:+.2f}, {sar['high']:+.2f}]", f"{sar['p_holm']:.3f}",
                         f"{money['value']:+.2f} [{money['low']:+.2f}, {money['high']:+.2f}]", f"{money['p_holm']:.3f}"])  # fmt: skip
    return table(["contender", "SAR − balanced", "p", "dollars − balanced", "p"], rows)


def budget_curve(name: str) -> str:
    """Return the table of SAR at each budget with the tokens sent, beside the bounds at that share."""
    found = load_result(name)
    head = found["rows"][0]["group"]
    budgets = sorted({r["budget"] for r in found["rows"] if r.get("budget") is not None})
    rows = []
    for contender in dict.fromkeys(r["contender"] for r in found["rows"]):
        mine = {r.get("budget"): r for r in found["rows"] if r["contender"] == contender and r["group"] == head}
        if any(b in mine for b in budgets):
            rows.append([f"`{contender}`", *(f"{mine[b]['tokens']:.2f} / {format_figure(mine[b]['sar']['value'])} / "
                                             f"{format_figure(mine[b]['dollars']['value'])}" for b in budgets)])  # fmt: skip
    bound = next(b for b in found["bounds"] if b["group"] == head)
    for key, text in (("oracle", "oracle"), ("chance", "random lines"), ("recency", "newest only")):
        rows.append([text, *(f"{b:.2f} / {format_figure(bound[key][str(b)]['sar'])}" for b in budgets)])
    return table(["told to stay below", *(f"{100 * b:.0f} %" for b in budgets)], rows)


def bounds(name: str) -> str:
    """Return a sentence on the clairvoyant bound and the cheapest commit schedule."""
    found = load_result(name)
    bound = found["bounds"][0]
    best = ", ".join(f"{v} at {k}" for k, v in ((k, format_figure(v, 3)) for k, v in bound["optimal_dollars"].items()))
    return (f"The clairvoyant residency is {100 * bound['clairvoyant_tokens']:.1f} % of the full context's tokens × requests. The "
            f"cheapest commits that know the future, with the proposals of `balanced`, cost {best} of doing nothing.")  # fmt: skip


def ladder(name: str) -> str:
    """Return the table of age bands and of where unsupported references could be found."""
    rows = []
    for contender, by in default_rows(load_result(name)).items():
        r = next(iter(by.values()))
        rows.append([f"`{contender}`", *(_format_share(r, k, 3) for k in ("hot", "warm", "cold")), *(_format_share(r, k) for k in
                     ("pointer", "retrieved", "lost", "search", "search_by_chance")), _format_share(r, "bare", 3),
                     format_figure(r["chance"], 3), format_figure(r["regret"]) if r.get("regret") is not None else ""])  # fmt: skip
    return table(["contender", "hot", "4–10", "over 10", "pointer", "retrieved", "lost", "search finds", "by chance", "bare",
                  "chance", "regret"], rows)  # fmt: skip


def state_measures(name: str) -> str:
    """Return the table of rules, files and state kept, invented content, and dollars counted in other ways."""
    rows = []
    for contender, by in default_rows(load_result(name)).items():
        r = next(iter(by.values()))
        rows.append([f"`{contender}`", _format_share(r, "rule_views", 3), format_figure(r["files_f1"], 3), *(_format_share(r, k) for k in
                     ("attempts", "failing_test", "test_status", "todo")), _format_share(r, "invented", 4), _format_share(r, "stale", 3),
                     _format_share(r, "sar_snapshot"), *(format_figure(r.get(k)) for k in ("dollars_idle", "dollars_floor", "dollars_faulty"))])  # fmt: skip
    return table(["contender", "rules", "files F1", "attempts", "failing test", "status", "todo", "invented", "stale", "snapshot",
                  "$ idle", "$ floor", "$ faults"], rows)  # fmt: skip


def sources(name: str) -> str:
    """Return the table of selected contenders by source."""
    found = load_result(name)
    head = found["rows"][0]["group"]
    rows = []
    for group in dict.fromkeys(r["group"] for r in found["rows"]):
        for r in found["rows"]:
            if r["group"] == group != head and r["contender"] in (
                "balanced",
                "literal",
                "keep-last-batched",
                "ends",
                "distil",
            ):
                rows.append([group, f"`{r['contender']}`", str(r["sessions"]), f"{r['tokens']:.2f}", format_estimate(r["sar"]),
                             f"{r['sar']['n']:.0f}", format_figure(r["edits"]["value"]), f"{r['edits']['n']:.0f}",
                             format_figure(r["dollars"]["value"]), format_figure(r["dollars_worst"])])  # fmt: skip
    return table(
        ["source", "contender", "sessions", "tokens", "SAR", "n", "edits", "n", "$ .10", "worst"], rows, left=2
    )


def dearer_sessions(name: str) -> str:
    """Return on how many sessions the literal policy costs more than doing nothing."""
    by = default_rows(load_result(name))["literal"]
    return ", ".join(f"{by[v]['dearer_sessions']} of {by[v]['sessions']} at {v}" for v in VECTORS if v in by)


def compactions() -> str:
    """Return the table of methods compared with real summaries."""
    rows = []
    for r in load_result("compactions")["rows"]:
        kept, due = r["user_lines"]
        rows.append([f"`{r['method']}`", f"{r['share']:g}", format_estimate(r["all"]), f"{r['all']['n']:.0f}", format_estimate(r["locators"]),
                     f"{r['locators']['n']:.0f}", format_figure(r["every"]["value"]), format_figure(kept / due if due else None)])  # fmt: skip
    return table(["method", "room", "all arguments", "n", "locators", "n", "every use", "user lines"], rows)


def variants() -> str:
    """Return the table of the same comparison under other definitions of an atom."""
    rows = []
    for variant, found in load_result("compactions")["variants"].items():
        rows += [[variant, f"`{r['method']}`", f"{r['share']:g}", format_estimate(r["all"]), format_estimate(r["locators"]), str(r["bare"])]
                 for r in found]  # fmt: skip
    return table(["atoms", "method", "room", "all arguments", "locators", "bare"], rows, left=2)


def handover() -> str:
    """Return the table of what survives in hand-overs of recorded sessions."""
    found = load_result("handover")
    rows = [[name.replace("_", " "), f"{m['kept']:.0f}", f"{m['n']:.0f}", format_figure(m["kept"] / m["n"] if m["n"] else None, 3)]
            for name, m in found["measures"].items()]  # fmt: skip
    size = found["characters"]
    text = (f"{found['documents']} hand-overs of {found['sessions']} sessions; characters: median {size['median']:,}, largest "
            f"{size['largest']:,}; points lost {found['lost']}, invalid views {found['invalid']}, faults {len(found['faults'])}.")  # fmt: skip
    return text + "\n\n" + table(["what", "kept", "of", "share"], rows)


def generations() -> str:
    """Return the table of five major compactions in a row."""
    rows = []
    for r in load_result("handover")["generations"]:
        (words, lines), (stands, due), (gone, back) = r["words"], r["standing"], r["gone"]
        rows.append([r["session"][:12], r["way"], f"{r['sizes'][0]:,}", f"{r['sizes'][-1]:,}", format_figure(r["growth"]), f"{words}/{lines}",
                     f"{stands}/{due}", f"{stands + r['recalled']}/{due}", f"{gone}/{back}"])  # fmt: skip
    heads = [
        "session",
        "way",
        "first",
        "fifth",
        "growth",
        "words and rules",
        "stands",
        "or recalled",
        "taken back, gone",
    ]
    return table(heads, rows, left=2)


def sensitivity() -> str:
    """Return the table of SAR under three definitions of an atom."""
    found = load_result("atoms")
    rows = []
    for contender in (c for c in next(iter(found.values())) if all(c in v for v in found.values())):
        cells = [f"`{contender}`"]
        for variant in found.values():
            r = variant[contender]
            cells += [format_estimate(r["sar"]), f"{r['sar']['n']:.0f}", format_figure(r["chance"], 3)]
        rows.append(cells)
    heads = [h for variant in found for h in (f"SAR, {variant}", "n", "chance")]
    return table(["contender", *heads], rows)


def cache_check() -> str:
    """Return the table of simulated against billed cache shares."""
    found = load_result("falsify")["cache"]
    rows = [[r["session"][:28] + (" (compacted)" if r["compacted"] else ""), str(r["requests"]),
             *(f"{share:.3f}" for share in r["simulated"].values()), f"{r['reported']:.3f}", f"{r['floor']:,.0f}"]
            for r in found["rows"]]  # fmt: skip
    within = "; ".join(f"{k} s: {v}" if k.isdecimal() else f"{k}: {v}" for k, v in found["within_5_points"].items())
    text = f"Within 5 points of what was billed, of {found['sessions']} sessions without a compaction: {within}.\n\n"
    return text + table(["session", "requests", "simulated, 300 s", "simulated, 3600 s", "reported", "floor"], rows)


def rereads() -> str:
    """Return a sentence on lost references that the agent looked up again."""
    r = load_result("falsify")["rereads"]
    return (f"After {r['records']} real compactions ({r['calls']} calls, {r['lookups']} of them look-ups of a file known before), "
            f"{r['lost_looked_up']} of {r['lost']} references that the summary lost, and {r['supported_looked_up']} of "
            f"{r['supported']} that it supports, were first used in such a look-up; rank correlation of losses with look-ups over "
            f"records: {r['rank_correlation']:.2f}.")  # fmt: skip


def window_sweep() -> str:
    """Return the table of SAR over OpenHands' masking window."""
    found = load_result("falsify")["sweep"]
    windows = list(found["all"]["sar"])
    rows = [[g, str(r["sessions"]), f"{r['actions']:.0f}", *(format_figure(r["sar"].get(w)) for w in windows),
             format_figure(r["rank_correlation_with_solved"])] for g, r in found.items()]  # fmt: skip
    return table(["source", "sessions", "actions", *windows, "rank correlation"], rows)


def audit() -> str:
    """Return the table of the manual audit."""
    import audit as counted

    found = counted.report()
    rows = [[g, str(r.get("true", 0)), str(r.get("coincidence", 0)), str(r.get("unclear", 0)), format_figure(r["precision"], 3)]
            for g, r in found["events"].items()]  # fmt: skip
    actions = found["actions"]
    text = ", ".join(f"{n} {k}" for k, n in actions.items())
    return (
        table(["events", "true", "coincidence", "unclear", "precision"], rows)
        + f"\nActions ({sum(actions.values())}): {text}.\n"
    )


def kits() -> str:
    """Return the table of public test kits."""
    found = load_result("kits")
    rows = []
    for budget in found.get("conformance", {}).get("fixed session", ()):
        other = next(
            (r for r in found["conformance"]["other sessions"] if r["budget_fraction"] == budget["budget"]), None
        )
        more = (f"; its random sessions {100 * other['randomized']['overall_final_survival']:.0f} %, near-twins both kept "
                f"{100 * other['semantic']['distinct_pair_rate']:.0f} %, paraphrased updates resolved "
                f"{100 * other['semantic']['resolved_rate']:.0f} %") if other else ""  # fmt: skip
        rows.append([f"compaction-conformance-kit at {100 * budget['budget']:.0f} % of the characters, after five rounds",
                     f"{budget['kept']} of {budget['of']}{more}"])  # fmt: skip
    if "compint" in found:
        kept = ", ".join(f"{k} {v}" for k, v in found["compint"]["kept"].items())
        rows.append(
            [f"COMPINT constraints verbatim in every view (of {found['compint']['of']}, views below 40 %)", kept]
        )
    if "ctxdrift" in found:
        kept = "; ".join(f"{k}: {v}" for k, v in found["ctxdrift"]["findings"].items())
        rows.append([f"ctxdrift findings over {found['ctxdrift']['records']} compactions", kept])
    for suite, r in found.get("compactbench", {}).get("suites", {}).items():
        said = "; ".join(f"{name} {r[name]['elite']} (case score {r[name]['score']}, n {r[name]['cases']})"
                         for name in ("section reader", "echo reader"))  # fmt: skip
        rows.append(
            [
                f"CompactBench {suite}",
                f"retention {r['kept']} of {r['n']} at {r['ratio']}×; combined score with the {said}",
            ]
        )
    return table(["kit", "result"], rows, left=2)


def speed() -> str:
    """Return the table of speed and memory."""
    rows = [[r["what"], str(r["messages"] or ""), f"{r['minimum']:.2f}", f"{r['median']:.2f}", r["unit"], r["asked"]]
            for r in load_result("speed")]  # fmt: skip
    return table(["what", "messages", "minimum", "median", "unit", "asked"], rows)


_SESSION_TABLES: dict[str, Callable[[str], str]] = {
    "headline": headline, "counts": counts, "against": differences, "curve": budget_curve, "bounds": bounds, "ladder": ladder,
    "state": state_measures, "sources": sources, "dearer": dearer_sessions,
}  # fmt: skip
TABLES: dict[str, Callable[[], str]] = {
    **{f"{kind}:{name}": partial(f, name) for kind, f in _SESSION_TABLES.items() for name in ("sessions", "long")},
    "compactions": compactions, "variants": variants, "handover": handover, "generations": generations, "sensitivity": sensitivity, "cache": cache_check, "rereads": rereads, "sweep": window_sweep,
    "audit": audit, "kits": kits, "speed": speed,
}  # fmt: skip
"""Place holder of the page → what fills it."""
