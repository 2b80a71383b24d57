"""`danshari replay`: replay recorded sessions round by round under policies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.cli.shared.common import (
    PATH_TYPE,
    emit_json,
    format_percent,
    load_sessions,
    make_table,
    out,
    parse_prices,
    print_notes,
    run_jobs,
    shorten_id,
)
from danshari.cli.shared.explain import explain_request
from danshari.core.pricing import Prices
from danshari.errors import ArgumentError
from danshari.replay.replay import ReplayResult, replay
from danshari.sessions import RecordedSession

ReplayJob = tuple[RecordedSession, str, Prices | None, str | None, int | None, bool]


def _replay_job(job: ReplayJob) -> ReplayResult:
    session, policy, prices, model, window, idle = job
    return replay(session, policy, prices=prices, model=model, window=window, idle=idle, check=True, measure=True)


@click.command("replay")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option(
    "--policy", "policies", multiple=True, default=("balanced",), show_default=True, help="Repeat for several."
)
@click.option("--prices", help="Price vector: .10, .05, .025, .02, or READ,WRITE multipliers. [default: the model's]")
@click.option("--model", help="Replay as this model. [default: the one recorded]")
@click.option("--window", type=int, help="Context window in tokens. [default: the model's]")
@click.option("--idle", is_flag=True, help="Let the cache expire over the recorded gaps between calls.")
@click.option("--rounds/--no-rounds", default=None, help="Show every round. [default: only for a single session]")
@click.option("--explain", "explained", type=int, metavar="REQUEST", help="Of one session: what was decided before "
              "this request, counted from 1, and why.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    paths: tuple[Path, ...],
    policies: tuple[str, ...],
    prices: str | None,
    model: str | None,
    window: int | None,
    idle: bool,
    rounds: bool | None,
    explained: int | None,
    as_json: bool,
) -> None:
    """Replay recorded sessions under policies: tokens, cached share, dollars, edits, validity.

    Exit code 3 if any view breaks a rule of its provider that the recording did not break, or on a fault.
    """
    for name in policies:
        data.load_policy(name)
    vector = parse_prices(prices)
    sessions, skipped = load_sessions(paths)
    if explained is not None:
        if len(sessions) > 1 or len(policies) > 1:
            raise ArgumentError("--explain needs one session and one policy; name one file")
        explain_request(
            sessions[0], policies[0], explained, prices=vector, model=model, window=window, idle=idle, as_json=as_json
        )
        return
    if idle and not any(s.times for s in sessions):
        skipped.append("--idle changes nothing: these recordings hold no times")
    names = ["off", *(p for p in policies if p != "off")]
    jobs: list[ReplayJob] = [(s, name, vector, model, window, idle) for s in sessions for name in names]
    results = run_jobs(_replay_job, jobs, "replaying")
    groups = [results[n : n + len(names)] for n in range(0, len(results), len(names))]
    if as_json:
        emit_json({"skipped": skipped, "sessions": [_result_dict(r, group[0]) for group in groups for r in group]})
    else:
        print_notes(skipped)
        if rounds or (rounds is None and len(sessions) == 1):
            for result in (r for group in groups for r in group[1:] or group):
                _print_rounds(result)
        _print_summary(groups)
    bad = [r for r in results if r.faults or any(x.problems for x in r.rounds)]
    if bad:
        sys.exit(3)


def _result_dict(result: ReplayResult, base: ReplayResult) -> dict[str, Any]:
    """Return a replayed session as JSON values; `base` is the same session under the policy `off`."""
    return {
        "session": result.session,
        "policy": result.policy,
        "model": result.model,
        "rounds": len(result.rounds),
        "dollars": result.prices.dollars(result.cost),
        "ratio": result.cost / base.cost if base.cost else 1.0,
        "tokens": round(result.tokens),
        "hit_rate": result.hit_rate,
        "peak": round(result.peak),
        "rewrites": result.rewrites,
        "milliseconds": result.milliseconds,
        "faults": result.faults,
        "invalid": sum(bool(r.problems) for r in result.rounds),
        "support": dict(sorted(result.tally.items())),
        "by_round": [
            {
                "round": r.number,
                "tokens": round(r.tokens),
                "cached": round(r.cached),
                "cost": round(r.cost),
                "edits": r.edits,
                "rewrote": r.batch,
                "trigger": r.trigger,
                "problems": list(r.problems),
            }
            for r in result.rounds
        ],
    }


def _print_rounds(result: ReplayResult) -> None:
    """Print one row per request of a replayed session."""
    shown = make_table(
        "why",
        "valid",
        "round",
        "tokens",
        "cached",
        "dollars",
        "edits",
        "rewrote",
        left=2,
        title=f"{result.session} · {result.policy} · {result.model}",
    )
    for r in result.rounds:
        share = format_percent(r.cached / r.tokens) if r.tokens else "–"
        shown.add_row(
            r.trigger,
            "; ".join(r.problems) or "yes",
            str(r.number),
            f"{r.tokens:,.0f}",
            share,
            f"{result.prices.dollars(r.cost):.4f}",
            str(r.edits or ""),
            "yes" if r.batch else "",
        )
    out.print(shown)


def _format_share(pair: list[float] | None) -> str:
    """Format a pair of (count, total) as percent/total."""
    return f"{100 * pair[0] / pair[1]:.0f}/{pair[1]:.0f}" if pair and pair[1] else "–"


def _print_summary(groups: list[list[ReplayResult]]) -> None:
    """Print one row per session and policy; ratios are relative to the policy `off`."""
    wide = out.width >= 100
    names = ["session", "policy", "requests", "$", "ratio", "hits", "edits"]
    shown = make_table(*names, *(["tokens", "rewrites", "recent", "bad"] if wide else []), left=2)
    for group in groups:
        base = group[0]
        for r in group:
            cells = [
                shorten_id(r.session),
                r.policy,
                str(len(r.rounds)),
                f"{r.prices.dollars(r.cost):.2f}",
                f"{r.cost / base.cost:.2f}" if base.cost else "–",
                f"{r.hit_rate:.2f}",
                _format_share(r.tally.get("edits")),
            ]
            if wide:
                cells += [
                    f"{r.tokens / base.tokens:.2f}" if base.tokens else "–",
                    str(r.rewrites),
                    _format_share(r.tally.get("hot")),
                    str(sum(bool(x.problems) for x in r.rounds) + len(r.faults)),
                ]
            shown.add_row(*cells)
    out.print(shown)
    more = (
        " · tokens: of doing nothing · rewrites: requests that changed sent bytes · recent: percent of references "
        "up to 3 rounds old still in the view, of n · bad: invalid views and faults"
    )
    out.print(
        "$: input cost · ratio: of doing nothing · hits: cached share of input · edits: percent of old texts still "
        f"in the view, of n{more if wide else ' · more columns in a wider window or with --json'}",
        style="dim",
        highlight=False,
    )
