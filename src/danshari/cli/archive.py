"""`danshari archive`: inspect and maintain the archive of originals."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from danshari.archive import maintenance as keeping
from danshari.archive.location import open_archive
from danshari.cli.shared.archives import ARCHIVE_OPTION, JSON_OPTION, open_existing_archive
from danshari.cli.shared.common import PATH_TYPE, emit_json, err, make_table, out, progress_bar
from danshari.errors import ArgumentError


@click.group("archive")
def command() -> None:
    """Look at the archive of originals: list, show, stats, verify, expire, export, import."""


@command.command("list")
@ARCHIVE_OPTION
@JSON_OPTION
def archive_list_command(where: Path | None, as_json: bool) -> None:
    """List the stored sessions, newest first."""
    rows = open_existing_archive(where).sessions()
    if as_json:
        emit_json(rows)
        return
    shown = make_table("session", "last call", "edits", "originals", left=2)
    for row in rows:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["at"]))
        shown.add_row(row["session"], when, f"{row['edits']:,}", f"{row['originals']:,}")
    out.print(shown)


@command.command("show")
@click.argument("id")
@ARCHIVE_OPTION
def archive_show_command(id: str, where: Path | None) -> None:  # noqa: A002
    """Print one original, byte for byte, by its id (6 digits or more)."""
    sys.stdout.buffer.write(open_existing_archive(where).get(id.lower()).text.encode("utf-8", "surrogatepass"))


@command.command("stats")
@ARCHIVE_OPTION
@JSON_OPTION
def stats_command(where: Path | None, as_json: bool) -> None:
    """Count originals, sessions and bytes."""
    found = keeping.archive_statistics(open_existing_archive(where))
    if as_json:
        emit_json(found)
        return
    for name in ("originals", "texts", "sessions"):
        out.print(f"{name:14} {found[name]:>14,}", highlight=False)
    for name in ("text_bytes", "packed_bytes", "file_bytes"):
        out.print(f"{name.replace('_', ' '):14} {found[name] / 1e6:>11,.1f} MB", highlight=False)
    for name in ("by_tier", "by_name", "by_project"):
        parts = ", ".join(f"{key or '(none)'} {n:,}" for key, n in found[name].items())
        out.print(f"{name.replace('_', ' '):14} {parts}", highlight=False, soft_wrap=True)


@command.command("verify")
@ARCHIVE_OPTION
def verify_command(where: Path | None) -> None:
    """Read every original back and check the file; exit code 3 if anything is wrong."""
    archive = open_existing_archive(where)
    problems = [*keeping.verify_archive(archive), *archive.notes]
    for problem in problems:
        out.print(problem, highlight=False)
    out.print(f"{len(problems)} problems" if problems else f"{len(archive):,} originals: all well", highlight=False)
    if problems:
        sys.exit(3)


@command.command("expire")
@ARCHIVE_OPTION
@click.option("--days", multiple=True, metavar="TIER=N", help="Days that a tier's originals stay; repeat. "
              "[default: transient 14, process 60, evidence 180, conclusion 730]")  # fmt: skip
@click.option("--rounds", multiple=True, metavar="TIER=N", help="Rounds that a tier's originals stay; repeat.")
@click.option("--megabytes", default=0.0, help="Then the oldest go until this much text remains; 0: no limit.")
@click.option("--spare", multiple=True, help="Session whose originals stay; repeat.")
@click.option("--dry-run", is_flag=True, help="Say what would go.")
def expire_command(
    where: Path | None,
    days: tuple[str, ...],
    rounds: tuple[str, ...],
    megabytes: float,
    spare: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Remove originals past their time; pinned ones stay. What is removed can no longer be recalled or undone."""
    archive = open_existing_archive(where)
    by_days = {**keeping.EXPIRY_DAYS, **_parse_tier_limits("--days", days)}
    by_rounds = {tier: int(n) for tier, n in _parse_tier_limits("--rounds", rounds).items()}
    gone = keeping.expire(
        archive,
        now=time.time(),
        days=by_days,
        rounds=by_rounds,
        most=int(megabytes * 1e6),
        spare=spare,
        dry_run=dry_run,
    )
    verb = "would go" if dry_run else "went"
    out.print(
        f"{gone.entries:,} originals ({gone.size / 1e6:,.1f} MB of text) {verb}; {len(archive):,} remain",
        highlight=False,
    )


def _parse_tier_limits(option: str, given: tuple[str, ...]) -> dict[str, float]:
    """Parse repeated TIER=N options; raises ArgumentError for an unknown tier or a negative number."""
    from danshari.analysis.tiers import TIERS

    found = {}
    for text in given:
        tier, _, number = text.partition("=")
        try:
            found[tier] = float(number)
        except ValueError:
            found[tier] = -1.0
        if tier not in TIERS or found[tier] < 0:
            raise ArgumentError(f"{option} {text!r}: give TIER=N, with a tier of {', '.join(TIERS)}")
    return found


@command.command("export")
@click.argument("target", type=PATH_TYPE)
@ARCHIVE_OPTION
@click.option("--session", default="", help="Only this session's originals.")
def export_command(target: Path, where: Path | None, session: str) -> None:
    """Write originals as JSON lines to TARGET (-: standard output)."""
    archive = open_existing_archive(where)
    count = -1
    if str(target) == "-":
        for line in keeping.export_archive(archive, session=session):
            sys.stdout.write(line + "\n")
        return
    beside = target.with_name(target.name + ".part")
    with beside.open("w", encoding="utf-8") as file, progress_bar() as bar:
        for line in bar.track(
            keeping.export_archive(archive, session=session), total=len(archive) + 1, description="writing"
        ):
            file.write(line + "\n")
            count += 1
    beside.replace(target)
    err.print(f"{count:,} originals: {target}", highlight=False)


@command.command("import")
@click.argument("source", type=PATH_TYPE)
@ARCHIVE_OPTION
def import_command(source: Path, where: Path | None) -> None:
    """Take an export in; what is there already stays as it is."""
    archive = open_archive(where)
    with source.open(encoding="utf-8") as file:
        count = keeping.import_archive(archive, file)
    err.print(f"{count:,} originals read; {len(archive):,} in {archive.path}", highlight=False)
