"""`danshari report`: where the tokens of recorded sessions went, and what each policy would have cost."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.analysis.tiers import TIERS
from danshari.cli.common import PATHS, each, emit_json, err, label, load_sessions, notes, out, percent, table
from danshari.replay.anatomy import Anatomy, anatomy, ranked
from danshari.replay.prompt_cache import DEFAULT_MODEL
from danshari.replay.replay import Replayed, replay
from danshari.replay.statistics import pooled
from danshari.sessions import Recorded, own_sessions

Job = tuple[Recorded, str, str | None]


def _work(job: Job) -> Replayed:
    session, policy, model = job
    return replay(session, policy, model=model)


def bundled_sessions() -> list[Path]:
    """List the recorded sessions that ship with the package."""
    folder = resources.files("danshari.data").joinpath("sessions")
    return sorted(Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith((".json", ".jsonl")))


def find(paths: tuple[Path, ...], newest: int) -> list[Path]:
    """Take the given paths, else the user's own sessions, else the bundled ones, and say which."""
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


@click.command()
@click.argument("paths", nargs=-1, type=PATHS)
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
def report(paths: tuple[Path, ...], policies: tuple[str, ...], model: str | None, newest: int, as_json: bool) -> None:
    """Show where the tokens of recorded sessions went and what each policy would have cost.

    PATHS are session files or folders; without any, your own Claude Code, Codex and pi sessions are found.
    """
    names = list(policies) or ["off", "literal", "balanced", "repair", "architecture"]
    for name in names:
        data.load_policy(name)
    sessions, skipped = load_sessions(find(paths, newest))
    found = anatomy(sessions)
    chosen = ["off", *(n for n in names if n != "off")]
    jobs: list[Job] = [(s, name, model) for name in chosen for s in sessions]
    results = each(_work, jobs, "replaying")
    by_policy = {name: results[n * len(sessions) : (n + 1) * len(sessions)] for n, name in enumerate(chosen)}
    costs = [_cost(name, by_policy[name], by_policy["off"]) for name in chosen if name in names or name == "off"]
    if as_json:
        emit_json({"anatomy": found.to_dict(), "policies": costs, "skipped": skipped})
        return
    notes([*skipped, *found.notes])
    models = sorted({r.model for r in results})
    out.print(
        f"[bold]{found.sessions} sessions, {found.rounds:,} rounds[/bold], {found.size:,.0f} tokens held at the end, "
        f"{found.carried:,.0f} tokens re-sent; priced as {', '.join(models)}",
        highlight=False,
    )
    _tools(found)
    _tiers(found)
    _biggest(found)
    _money(costs)


def _cost(name: str, results: list[Replayed], base: list[Replayed]) -> dict[str, Any]:
    dollars = sum(r.prices.dollars(r.cost) for r in results)
    untouched = sum(r.prices.dollars(r.cost) for r in base)
    worst = max((r.cost / b.cost for r, b in zip(results, base, strict=True) if b.cost), default=1.0)
    return {
        "policy": name,
        "dollars": dollars,
        "ratio": dollars / untouched if untouched else 1.0,
        "worst": worst,
        "tokens": pooled((r.tokens, b.tokens) for r, b in zip(results, base, strict=True)),
        "hit_rate": pooled((sum(x.cached for x in r.rounds), r.tokens) for r in results),
        "peak": max((r.peak for r in results), default=0.0),
        "rewrites": sum(r.rewrites for r in results),
        "faults": sum(len(r.faults) for r in results),
        "sessions": len(results),
    }


def _tools(found: Anatomy) -> None:
    shown = table("tool", "tokens", "re-sent tokens", "share of re-sent", title="Where the tokens went")
    for name, carried in ranked(found.tools_carried)[:12]:
        share = carried / found.carried if found.carried else 0.0
        shown.add_row(name, f"{found.tools[name]:,.0f}", f"{carried:,.0f}", percent(share))
    out.print(shown)


def _tiers(found: Anatomy) -> None:
    total = sum(found.tiers.values()) or 1.0
    shares = " · ".join(f"{tier} {percent(found.tiers[tier] / total)}" for tier in TIERS)
    out.print(f"By tier (share of re-sent tokens): {shares}", highlight=False)
    out.print(
        f"File reads: {found.reads}, of them {found.rereads} of a file read before "
        f"({found.rereads_carried:,.0f} re-sent tokens)\n",
        highlight=False,
    )


def _biggest(found: Anatomy) -> None:
    shown = table("session", "tool", "what", "tokens", "re-sent", title="Biggest items", left=3)
    for big in found.big:
        shown.add_row(label(big.session), big.what, tail(big.label, 40), f"{big.tokens:,.0f}", f"{big.carried:,.0f}")
    out.print(shown)


def tail(text: str, width: int) -> str:
    """Keep the end of a long path and the beginning of anything else."""
    if len(text) <= width:
        return text
    return f"…{text[-width + 1 :]}" if " " not in text else f"{text[: width - 1]}…"


def _money(costs: list[dict[str, Any]]) -> None:
    shown = table(
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
