"""`danshari report`: where the tokens of recorded sessions went, and what each policy would have cost."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from danshari import data
from danshari.analysis.tiers import TIERS
from danshari.cli.shared.common import (
    PATH_TYPE,
    emit_json,
    err,
    format_percent,
    load_sessions,
    make_table,
    out,
    print_notes,
    run_jobs,
    shorten_id,
)
from danshari.replay.anatomy import TokenBreakdown, break_down_tokens, sort_by_size
from danshari.replay.prompt_cache import DEFAULT_MODEL
from danshari.replay.replay import ReplayResult, replay
from danshari.replay.statistics import pool_ratio
from danshari.sessions import RecordedSession, own_sessions

ReportJob = tuple[RecordedSession, str, str | None]


def _replay_job(job: ReportJob) -> ReplayResult:
    session, policy, model = job
    return replay(session, policy, model=model)


def bundled_sessions() -> list[Path]:
    """Return the paths of the recorded sessions that ship with the package."""
    folder = resources.files("danshari.data").joinpath("sessions")
    return sorted(Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith((".json", ".jsonl")))


def choose_session_paths(paths: tuple[Path, ...], newest: int) -> list[Path]:
    """Return the given paths, else the user's own sessions, else the bundled ones; print which were chosen."""
    if paths:
        return list(paths)
    own = own_sessions(Path.home())[:newest]
    if own:
        err.print(f"found {len(own)} of your own sessions (Claude Code, Codex, pi), newest first", highlight=False)
        return own
    err.print(
        "no sessions of yours found (looked for Claude Code, Codex and pi below your home folder): "
        "showing the ones that ship with danshari",
        highlight=False,
        soft_wrap=True,
    )
    return bundled_sessions()


@click.command("report")
@click.argument("paths", nargs=-1, type=PATH_TYPE)
@click.option("--policy", "policies", multiple=True, help="Policy to price; repeat for several. [default: all presets]")
@click.option("--model", help="Price all sessions as this model. [default: the one recorded]")
@click.option(
    "--newest",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    help="How many of your own sessions to read without PATHS.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(paths: tuple[Path, ...], policies: tuple[str, ...], model: str | None, newest: int, as_json: bool) -> None:
    """Show where the tokens of recorded sessions went and what each policy would have cost.

    PATHS are session files or folders; without any, your own Claude Code, Codex and pi sessions are found.
    """
    names = list(policies) or ["off", "literal", "balanced", "repair", "architecture"]
    for name in names:
        data.load_policy(name)
    sessions, skipped = load_sessions(choose_session_paths(paths, newest))
    found = break_down_tokens(sessions)
    chosen = ["off", *(n for n in names if n != "off")]
    jobs: list[ReportJob] = [(s, name, model) for name in chosen for s in sessions]
    results = run_jobs(_replay_job, jobs, "replaying")
    by_policy = {name: results[n * len(sessions) : (n + 1) * len(sessions)] for n, name in enumerate(chosen)}
    costs = [_policy_cost(name, by_policy[name], by_policy["off"]) for name in chosen if name in names or name == "off"]
    if as_json:
        emit_json({"anatomy": found.to_dict(), "policies": costs, "skipped": skipped})
        return
    print_notes([*skipped, *found.notes])
    models = sorted({r.model for r in results})
    out.print(
        Text.assemble(
            (f"{found.sessions} sessions, {found.rounds:,} rounds", "bold"),
            f", {found.size:,.0f} tokens held at the end, {found.carried:,.0f} tokens re-sent; "
            f"priced as {', '.join(models)}",
        ),
        highlight=False,
    )
    _print_tools(found)
    _print_tiers(found)
    _print_biggest(found)
    _print_costs(costs)


def _policy_cost(name: str, results: list[ReplayResult], base: list[ReplayResult]) -> dict[str, Any]:
    """Return a policy's totals over all sessions; `base` are the same sessions under the policy `off`.

    `ratio` is dollars over those of `off`, `worst` the highest such ratio of one session, `tokens` the
    pooled ratio of input tokens, `hit_rate` the cached share of input tokens, and `peak` the largest
    request in tokens.
    """
    dollars = sum(r.prices.dollars(r.cost) for r in results)
    untouched = sum(r.prices.dollars(r.cost) for r in base)
    worst = max((r.cost / b.cost for r, b in zip(results, base, strict=True) if b.cost), default=1.0)
    return {
        "policy": name,
        "dollars": dollars,
        "ratio": dollars / untouched if untouched else 1.0,
        "worst": worst,
        "tokens": pool_ratio((r.tokens, b.tokens) for r, b in zip(results, base, strict=True)),
        "hit_rate": pool_ratio((sum(x.cached for x in r.rounds), r.tokens) for r in results),
        "peak": max((r.peak for r in results), default=0.0),
        "rewrites": sum(r.rewrites for r in results),
        "faults": sum(len(r.faults) for r in results),
        "sessions": len(results),
    }


def _print_tools(found: TokenBreakdown) -> None:
    shown = make_table("tool", "tokens", "re-sent tokens", "share of re-sent", title="Where the tokens went")
    for name, carried in sort_by_size(found.tools_carried)[:12]:
        share = carried / found.carried if found.carried else 0.0
        shown.add_row(name, f"{found.tools[name]:,.0f}", f"{carried:,.0f}", format_percent(share))
    out.print(shown)


def _print_tiers(found: TokenBreakdown) -> None:
    total = sum(found.tiers.values()) or 1.0
    shares = " · ".join(f"{tier} {format_percent(found.tiers[tier] / total)}" for tier in TIERS)
    out.print(f"By tier (share of re-sent tokens): {shares}", highlight=False)
    out.print(
        f"File reads: {found.reads}, of them {found.rereads} of a file read before "
        f"({found.rereads_carried:,.0f} re-sent tokens)\n",
        highlight=False,
    )


def _print_biggest(found: TokenBreakdown) -> None:
    shown = make_table("session", "tool", "what", "tokens", "re-sent", title="Biggest items", left=3)
    for big in found.big:
        shown.add_row(
            shorten_id(big.session), big.what, shorten_label(big.label, 40), f"{big.tokens:,.0f}", f"{big.carried:,.0f}"
        )
    out.print(shown)


def shorten_label(text: str, width: int) -> str:
    """Shorten a text to `width` characters; a path keeps its end, other text its beginning."""
    if len(text) <= width:
        return text
    return f"…{text[-width + 1 :]}" if " " not in text else f"{text[: width - 1]}…"


def _print_costs(costs: list[dict[str, Any]]) -> None:
    """Print what each policy would have cost."""
    shown = make_table(
        "policy",
        "input cost",
        "ratio",
        "worst",
        "tokens",
        "hits",
        "peak",
        "rewrites",
        title="What each policy would have cost (input tokens, prefix cache simulated)",
    )
    for cost in costs:
        shown.add_row(
            cost["policy"],
            f"${cost['dollars']:,.2f}",
            f"{cost['ratio']:.2f}",
            f"{cost['worst']:.2f}",
            f"{cost['tokens']:.2f}",
            f"{cost['hit_rate']:.2f}",
            f"{cost['peak']:,.0f}",
            str(cost["rewrites"]),
        )
    out.print(shown)
    out.print(
        "ratio: of doing nothing, over all sessions; worst: the dearest session's. Assumes no fixed floor: system "
        f"prompt and tool schemas are not in these files. Sessions that name no model are priced as {DEFAULT_MODEL}.",
        style="dim",
        highlight=False,
    )
