"""`danshari bench sessions`: contenders on recorded sessions, as a table, JSON and an HTML report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.cli.common import PATHS, each, emit_json, err, load_sessions, notes, out, table, write_json
from danshari.errors import ArgumentError
from danshari.replay.atoms import VARIANTS
from danshari.replay.prompt_cache import VECTORS
from danshari_bench.comparison.bounds import BUDGETS
from danshari_bench.comparison.contenders import named
from danshari_bench.comparison.plan import LONG
from danshari_bench.comparison.run import commit, compare
from danshari_bench.peers import PEERS
from danshari_bench.peers.baselines import BASELINES
from danshari_bench.peers.environment import Environment


@click.command("sessions")
@click.argument("paths", nargs=-1, required=True, type=PATHS)
@click.option("--policy", "--policies", "policies", multiple=True, help="Policy, policy file, or FILE.py:FUNCTION; "
              "repeat for several. [default: all presets]")  # fmt: skip
@click.option("--peer", "--peers", "peers", multiple=True, help="Peer or baseline by name; `all`: every baseline and "
              "every peer that is installed; `none`. [default: the baselines]")  # fmt: skip
@click.option("--budgets", default=",".join(map(str, BUDGETS)), show_default=True,
              help="Shares of the full context for the curve; an empty text: no curve.")  # fmt: skip
@click.option(
    "--prices", "vectors", multiple=True, type=click.Choice(list(VECTORS)), help="Price vectors. [default: all]"
)
@click.option("--atoms", type=click.Choice(VARIANTS), default="strict", show_default=True, help="Definition of atoms.")
@click.option("--json", "json_out", type=PATHS, help="Write the result here; into a folder: named by commit; -: print.")
@click.option("--html", "html_out", type=PATHS, help="Write the report here; into a folder: named by commit.")
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
    names = [*(policies or data.policy_names()), *_peers(peers)]
    for name in names:
        named(name)
    sessions, skipped = load_sessions(paths)
    found = compare(
        sessions, names, vectors=vectors or tuple(VECTORS), budgets=_budgets(budgets), variant=atoms, skipped=skipped,
        each=each,
    )  # fmt: skip
    if html_out is not None:
        from danshari_bench.report.page import write_report

        target = _target(html_out, ".html")
        target.write_text(write_report(found), encoding="utf-8")
        err.print(f"report: {target}", highlight=False)
    if json_out is not None and str(json_out) == "-":
        emit_json(found)
    else:
        if json_out is not None:
            target = _target(json_out, ".json")
            write_json(target, found)
            err.print(f"result: {target}", highlight=False)
        notes(found["notes"])
        print_rows(found)
    ours = set(data.policy_names())
    if any(r["contender"] in ours and (r["invalid_requests"] or r["faulty_sessions"]) for r in found["rows"]):
        sys.exit(3)


def _peers(wanted: tuple[str, ...]) -> list[str]:
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


def _budgets(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [-1.0]
    if any(not 0 < budget <= 1 for budget in found):
        raise ArgumentError(f"--budgets {text!r}: give shares between 0 and 1, such as 0.1,0.3,0.5")
    return found


def _target(path: Path, suffix: str) -> Path:
    """Name the file to write: in a folder by kind and commit."""
    target = path / f"sessions-{commit()}{suffix}" if path.is_dir() or not path.suffix else path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def print_rows(found: dict[str, Any]) -> None:
    """Print the headline table: long sessions, every contender at its own defaults, dollars at every price vector."""
    group = next(iter(r["group"] for r in found["rows"]))
    rows: dict[str, dict[str, Any]] = {}
    for row in found["rows"]:
        if row["group"] == group and row["budget"] is None:
            rows.setdefault(row["contender"], {})[row["vector"]] = row
    vectors = list(dict.fromkeys(v for by in rows.values() for v in by))
    names = ("contender", "tokens", "SAR", "range", "edits", "hot", "rules")
    shown = table(*names, *(f"$ {v}" for v in vectors), "worst", "hits", "bad")
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
            _figure(sar["value"]),
            f"{_figure(sar['low'])}–{_figure(sar['high'])}",
            _figure(row["edits"]["value"]),
            _figure(row["hot"][0] if row["hot"] else None, 3),
            _figure(row["rule_views"][0] if row["rule_views"] else None),
            *(_figure(by[v]["dollars"]["value"]) if v in by else "–" for v in vectors),
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
        f"{LONG} rounds: see --json or --html",
        style="dim",
        highlight=False,
    )


def _figure(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
