"""`danshari bench sessions`: compare contenders on recorded sessions, as a table, JSON or an HTML report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.cli.shared.common import (
    PATH_TYPE,
    emit_json,
    err,
    load_sessions,
    make_table,
    out,
    print_notes,
    run_jobs,
    write_json,
)
from danshari.errors import ArgumentError
from danshari.replay.atoms import ATOM_VARIANTS
from danshari.replay.prompt_cache import PRICE_VECTORS
from danshari_bench.comparison.bounds import BOUND_BUDGETS
from danshari_bench.comparison.contenders import find_contender
from danshari_bench.comparison.plan import LONG_ROUNDS
from danshari_bench.comparison.run import compare_contenders, git_commit
from danshari_bench.peers import PEERS
from danshari_bench.peers.baselines import BASELINES
from danshari_bench.peers.environment import Environment


@click.command("sessions")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option(
    "--policy",
    "--policies",
    "policies",
    multiple=True,
    help="Policy, policy file, or FILE.py:FUNCTION; repeat for several. [default: all presets]",
)
@click.option(
    "--peer",
    "--peers",
    "peers",
    multiple=True,
    help="Peer or baseline by name; `all`: every baseline and "
    "every peer that is installed; `none`. [default: the baselines]",
)
@click.option(
    "--budgets",
    default=",".join(map(str, BOUND_BUDGETS)),
    show_default=True,
    help="Shares of the full context for the curve; an empty text: no curve.",
)
@click.option(
    "--prices", "vectors", multiple=True, type=click.Choice(list(PRICE_VECTORS)), help="Price vectors. [default: all]"
)
@click.option(
    "--atoms", type=click.Choice(ATOM_VARIANTS), default="strict", show_default=True, help="Definition of atoms."
)
@click.option(
    "--json", "json_out", type=PATH_TYPE, help="Write the result here; into a folder: named by commit; -: print."
)
@click.option("--html", "html_out", type=PATH_TYPE, help="Write the report here; into a folder: named by commit.")
def sessions_command(
    paths: tuple[Path, ...],
    policies: tuple[str, ...],
    peers: tuple[str, ...],
    budgets: str,
    vectors: tuple[str, ...],
    atoms: Any,
    json_out: Path | None,
    html_out: Path | None,
) -> None:
    """Compare: what each action needed, whether it was still in the view, and what that cost.

    Every contender lives through every session round by round. Finished parts are stored, so an interrupted run goes
    on where it stopped; `danshari bench peers install` makes the environments of other people's compactors.
    Exit code 3 if one of danshari's own policies gave an invalid view or failed.
    """
    names = [*(policies or data.policy_names()), *_choose_peers(peers)]
    for name in names:
        find_contender(name)
    sessions, skipped = load_sessions(paths)
    found = compare_contenders(
        sessions,
        names,
        vectors=vectors or tuple(PRICE_VECTORS),
        budgets=_parse_budgets(budgets),
        variant=atoms,
        skipped=skipped,
        each=run_jobs,
    )
    if html_out is not None:
        from danshari_bench.report.page import write_report

        target = _output_path(html_out, ".html")
        target.write_text(write_report(found), encoding="utf-8")
        err.print(f"report: {target}", highlight=False)
    if json_out is not None and str(json_out) == "-":
        emit_json(found)
    else:
        if json_out is not None:
            target = _output_path(json_out, ".json")
            write_json(target, found)
            err.print(f"result: {target}", highlight=False)
        print_notes(found["notes"])
        print_headline_table(found)
    ours = set(data.policy_names())
    if any(r["contender"] in ours and (r["invalid_requests"] or r["faulty_sessions"]) for r in found["rows"]):
        sys.exit(3)


def _choose_peers(wanted: tuple[str, ...]) -> list[str]:
    """Expand `all`, `baselines` and `none` to names of peers and baselines, without duplicates.

    Raises ArgumentError if a named peer is not installed.
    """
    baselines = [b.name for b in BASELINES]
    chosen: list[str] = []
    for name in wanted or ("baselines",):
        if name == "all":
            chosen += baselines
            for peer in PEERS:
                if Environment(peer.environment, peer.requires).ready:
                    chosen.append(peer.name)
                else:
                    err.print(f"note: {peer.name} is not installed (danshari bench peers install {peer.name})")
        elif name == "baselines":
            chosen += baselines
        elif name != "none":
            peer_row = next((p for p in PEERS if p.name == name), None)
            if peer_row and not Environment(peer_row.environment, peer_row.requires).ready:
                raise ArgumentError(f"{name} is not installed: run `danshari bench peers install {name}`")
            chosen.append(name)
    return list(dict.fromkeys(chosen))


def _parse_budgets(text: str) -> list[float]:
    """Parse comma-separated shares of the full context; raises ArgumentError outside 0 to 1."""
    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [-1.0]
    if any(not 0 < budget <= 1 for budget in found):
        raise ArgumentError(f"--budgets {text!r}: give shares between 0 and 1, such as 0.1,0.3,0.5")
    return found


def _output_path(path: Path, suffix: str) -> Path:
    """Return the file to write; in a folder it is named by kind and commit."""
    target = path / f"sessions-{git_commit()}{suffix}" if path.is_dir() or not path.suffix else path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def print_headline_table(found: dict[str, Any]) -> None:
    """Print the headline table: long sessions, each contender at its own defaults, dollars per price vector."""
    group = next(iter(r["group"] for r in found["rows"]))
    rows: dict[str, dict[str, Any]] = {}
    for row in found["rows"]:
        if row["group"] == group and row["budget"] is None:
            rows.setdefault(row["contender"], {})[row["vector"]] = row
    vectors = list(dict.fromkeys(v for by in rows.values() for v in by))
    names = ("contender", "tokens", "SAR", "range", "edits", "hot", "rules")
    shown = make_table(*names, *(f"$ {v}" for v in vectors), "worst", "hits", "bad")
    for name, by in rows.items():
        row = next(iter(by.values()))
        if row["void"]:
            bad = row["invalid_sessions"] + row["faulty_sessions"]
            shown.add_row(f"{name} (void)", *["–"] * (8 + len(vectors)), str(bad))
            continue
        sar = row["sar"]
        shown.add_row(
            name,
            f"{row['tokens']:.2f}",
            _format_figure(sar["value"]),
            f"{_format_figure(sar['low'])}–{_format_figure(sar['high'])}",
            _format_figure(row["edits"]["value"]),
            _format_figure(row["hot"][0] if row["hot"] else None, 3),
            _format_figure(row["rule_views"][0] if row["rule_views"] else None),
            *(_format_figure(by[v]["dollars"]["value"]) if v in by else "–" for v in vectors),
            f"{max(r['dollars_worst'] for r in by.values()):.2f}",
            f"{row['hit_rate']:.2f}",
            str(row["invalid_sessions"] + row["faulty_sessions"]) if name != "off" else "",
        )
    out.print(shown)
    first = next(r for r in found["rows"] if r["group"] == group)
    n = f"n {first['sar']['n']:.0f}, {first['sar']['tasks']} tasks"
    out.print(
        f"{group}: {first['sessions']} sessions, {first['requests']} requests, told the first price vector but where $ "
        "says another · tokens, $: of doing nothing (input; "
        "output and faults left out) · SAR: of the actions with a reference older than 3 rounds, the share whose such "
        f"references are all supported ({n}; range: 95 %) · edits: old texts still there · hot: references up to "
        "3 rounds old · rules: views that hold all "
        "user words and imperatives · bad: sessions with an invalid view or a fault · sessions below "
        f"{LONG_ROUNDS} rounds: see --json or --html",
        style="dim",
        highlight=False,
    )


def _format_figure(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
