"""`danshari archive` and `danshari recall`: search, inspect and maintain the archive of originals."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from danshari.archive import Filters
from danshari.archive import maintenance as keeping
from danshari.archive.location import data_home, open_archive
from danshari.archive.sqlite import SqliteArchive
from danshari.cli.common import PATH_TYPE, emit_json, err, make_table, out, progress_bar
from danshari.errors import ArgumentError, RecallError

ARCHIVE_OPTION = click.option(
    "--archive", "where", type=PATH_TYPE, help="The archive's file. [default: archive.db in the data folder]"
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def open_existing_archive(where: Path | None) -> SqliteArchive:
    """Open an existing archive; raises ArgumentError if there is none."""
    path = where or data_home() / "archive.db"
    if not path.is_file():
        raise ArgumentError(f"{path}: no archive there; one is made by Compactor(archive=open_archive())")
    archive = open_archive(path)
    for note in archive.notes:
        err.print(f"note: {note}", highlight=False, soft_wrap=True)
    return archive


@click.command("recall")
@click.argument("query")
@ARCHIVE_OPTION
@click.option("--session", default="", help="Only this session.")
@click.option("--project", default="", help="Only this project.")
@click.option("--path", default="", help="Only originals of files whose path holds this.")
@click.option("--tool", default="", help="Only originals of this tool.")
@click.option("--failed", is_flag=True, help="Only what failed: attempts that were ruled out.")
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1, 100))
@JSON_OPTION
def recall_command(
    query: str,
    where: Path | None,
    session: str,
    project: str,
    path: str,
    tool: str,
    failed: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Find originals by words, or print one by its id.

    QUERY: words, identifiers, a path, a command; or the id shown as `recall` or `archived as`.
    """
    archive = open_existing_archive(where)
    filters = Filters(session=session, project=project, path=path, name=tool, failed=True if failed else None)
    try:
        entry = archive.get(query.lower())
    except RecallError:
        found = archive.search(query, limit=limit, filters=filters)
        if not found:
            raise RecallError(
                f"nothing recalled for {query!r} in {len(archive):,} originals of {archive.path}"
            ) from None
    else:
        sys.stdout.write(entry.text.encode("utf-8", "replace").decode() + "\n")
        return
    if as_json:
        emit_json([
            {"id": p.entry.id, "tool": p.entry.name, "path": p.entry.path, "session": p.entry.session,
             "round": p.entry.turn, "lines": [p.start, p.end], "score": p.score, "newer": p.newer, "text": p.text}
            for p in found
        ])  # fmt: skip
        return
    for p in found:
        where_from = " · ".join(filter(None, [p.entry.name, p.entry.path or p.entry.label[:60], p.entry.session]))
        newer = f" · newer: {p.newer}" if p.newer else ""
        out.print(f"[bold]{p.entry.id}[/bold] {where_from} · round {p.entry.turn} · lines {p.start}-{p.end}{newer}",
                  highlight=False)  # fmt: skip
        for line in _best_lines(p.text, query):
            out.print(f"    {line[:160]}", highlight=False, markup=False)


def _best_lines(text: str, query: str, most: int = 4) -> list[str]:
    """Return the `most` lines that share most words with the query, in their original order."""
    from danshari.archive.words import index_words

    asked = set(index_words(query))
    lines = text.split("\n")
    ranked = sorted(range(len(lines)), key=lambda n: (-len(asked & set(index_words(lines[n]))), n))[:most]
    return [lines[n].rstrip() for n in sorted(ranked)]


@click.group("archive")
def archive_group() -> None:
    """Look at the archive of originals: list, show, stats, verify, expire, export, import."""


@archive_group.command("list")
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


@archive_group.command("show")
@click.argument("id")
@ARCHIVE_OPTION
def archive_show_command(id: str, where: Path | None) -> None:  # noqa: A002
    """Print one original, byte for byte, by its id (6 digits or more)."""
    sys.stdout.buffer.write(open_existing_archive(where).get(id.lower()).text.encode("utf-8", "surrogatepass"))


@archive_group.command("stats")
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


@archive_group.command("verify")
@ARCHIVE_OPTION
def verify_command(where: Path | None) -> None:
    """Read every original back and check the file; exit code 3 if anything is wrong."""
    archive = open_existing_archive(where)
    problems = [*keeping.verify_archive(archive), *archive.notes]
    for problem in problems:
        out.print(problem, highlight=False, markup=False)
    out.print(f"{len(problems)} problems" if problems else f"{len(archive):,} originals: all well", highlight=False)
    if problems:
        sys.exit(3)


@archive_group.command("expire")
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


@archive_group.command("export")
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


@archive_group.command("import")
@click.argument("source", type=PATH_TYPE)
@ARCHIVE_OPTION
def import_command(source: Path, where: Path | None) -> None:
    """Take an export in; what is there already stays as it is."""
    archive = open_archive(where)
    with source.open(encoding="utf-8") as file:
        count = keeping.import_archive(archive, file)
    err.print(f"{count:,} originals read; {len(archive):,} in {archive.path}", highlight=False)
