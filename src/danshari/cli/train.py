"""`danshari train`: train the line scorer on recorded sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from danshari import data
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
    write_json,
)
from danshari.core.line_weights import ScorerWeights
from danshari.errors import ArgumentError
from danshari.training.examples import collect_examples
from danshari.training.train import (
    RECALL_SHARES,
    assign_folds,
    evaluate_scorers,
    train_weights,
)

_MIN_NEEDED_LINES = 200
"""Needed lines below which nothing is learned."""
_WEIGHTS_FILE = "scorer.json"


@click.command("train")
@click.argument("paths", nargs=-1, type=PATH_TYPE)
@click.option(
    "--out", "target", type=PATH_TYPE, help="File to write the weights to. [default: scorer.json in your folder]"
)
@click.option("--dry-run", is_flag=True, help="Train and report; write nothing.")
@click.option("--reset", is_flag=True, help="Go back to the weights that came with danshari; PATHS are not read.")
@click.option("--json", "as_json", is_flag=True, help="Print the training report as JSON.")
def command(paths: tuple[Path, ...], target: Path | None, dry_run: bool, reset: bool, as_json: bool) -> None:
    """Learn from recorded sessions which lines later actions need.

    Each line of a tool result is an example, labelled by whether a later action referred to it. The report scores each
    repository with weights trained without it, compares recency, rarity and BM25 against the task, and lists the
    weights that changed most. Weights in your folder are used instead of the built-in ones.
    """
    target = target or data.user_folder() / _WEIGHTS_FILE
    if reset:
        _restore_default_weights(target)
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATHS...': files or folders of recorded sessions")
    sessions, skipped = load_sessions(paths)
    examples = run_jobs(collect_examples, sessions, "taking examples")
    needed = sum(need > 0 for e in examples for block in e.blocks.values() for need in block.need)
    if needed < _MIN_NEEDED_LINES:
        raise ArgumentError(
            f"{needed} lines in {len(sessions)} sessions were needed by a later action; "
            f"at least {_MIN_NEEDED_LINES} are required: add sessions"
        )
    folds = assign_folds(examples)
    jobs = [[e for n, e in enumerate(examples) if n not in set(fold)] for fold in folds]
    *learned, weights = run_jobs(train_weights, [*jobs, examples], "learning")
    families = evaluate_scorers(examples, folds, learned)
    report = {
        "sessions": len(sessions),
        "repositories": len({e.repository for e in examples}),
        "folds": len(folds),
        "families": families,
    }
    skipped += [
        f"{name}: all lines come from one repository, so the weights cannot be judged on another; "
        "add sessions of a second one"
        for name, found in families.items()
        if found["lines"] and "scorer" not in found["rows"]
    ]
    weights = ScorerWeights(families=weights.families, report=report)
    changed = _largest_changes(data.line_weights(), weights)
    if not dry_run:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, weights.to_dict())
    if as_json:
        emit_json({**report, "notes": skipped, "changed": changed, "written": "" if dry_run else str(target)})
        return
    print_notes(skipped)
    _print_report(report, changed)
    err.print(f"weights: {target}" if not dry_run else "nothing written (--dry-run)", highlight=False)


def _restore_default_weights(target: Path) -> None:
    """Restore the bundled weights; the user's own are kept in a file beside."""
    kept = target.with_suffix(".json.old")
    if not target.is_file():
        err.print(f"{target}: no weights of your own; ours are in use", highlight=False)
        return
    target.replace(kept)
    err.print(f"ours are in use; yours were kept as {kept}", highlight=False)


def _largest_changes(before: ScorerWeights | None, after: ScorerWeights) -> list[dict[str, Any]]:
    """Return the 12 weights that differ most from those in use."""
    from danshari.shorten.line_scorer import SCORER_FEATURES

    buckets = {f.name: f.buckets for f in SCORER_FEATURES}
    rows: list[dict[str, Any]] = []
    for family, found in after.families.items():
        old = before.families[family].features if before else {}
        for name, weights in found.features.items():
            for number, weight in enumerate(weights):
                was = old[name][number] if name in old else 0.0
                rows.append(
                    {"family": family, "feature": name, "bucket": buckets[name][number], "was": was, "is": weight}
                )
    return sorted(rows, key=lambda row: -abs(row["is"] - row["was"]))[:12]


def _print_report(report: dict[str, Any], changed: list[dict[str, Any]]) -> None:
    """Print the scores per family of results, and the weights that changed most."""
    for family, found in report["families"].items():
        title = (
            f"{family}: {found['lines']:,} lines of {found['sessions']} sessions, {found['needed']:,} needed later "
            f"({format_percent(found['needed'] / max(found['lines'], 1))}); {report['folds']} folds by repository"
        )
        rows = make_table(
            "order", "AUC", "inside", *(f"{round(100 * s)} % of lines' characters" for s in RECALL_SHARES), title=title
        )
        for label, row in found["rows"].items():
            recalls = [f"{row[f'recall_{round(100 * s)}']:.2f}" for s in RECALL_SHARES]
            rows.add_row(label, f"{row['auc']:.3f}", f"{row['auc_inside']:.3f}", *recalls)
        out.print(rows)
    moved = make_table("weight", "was", "is", title="weights that moved most")
    for row in changed:
        moved.add_row(f"{row['family']} · {row['feature']}: {row['bucket']}", f"{row['was']:+.2f}", f"{row['is']:+.2f}")
    out.print(moved)
