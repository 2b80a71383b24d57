"""`danshari recall`: find archived originals, or print one."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.text import Text

from danshari.archive.base import Filters
from danshari.cli.shared.archives import ARCHIVE_OPTION, JSON_OPTION, open_existing_archive
from danshari.cli.shared.common import emit_json, out
from danshari.errors import RecallError


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
def command(
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
        rest = f" {where_from} · round {p.entry.turn} · lines {p.start}-{p.end}{newer}"
        out.print(Text.assemble((p.entry.id, "bold"), rest), highlight=False)
        for line in _best_lines(p.text, query):
            out.print(f"    {line[:160]}", highlight=False)


def _best_lines(text: str, query: str, most: int = 4) -> list[str]:
    """Return the `most` lines that share most words with the query, in their original order."""
    from danshari.archive.words import index_words

    asked = set(index_words(query))
    lines = text.split("\n")
    ranked = sorted(range(len(lines)), key=lambda n: (-len(asked & set(index_words(lines[n]))), n))[:most]
    return [lines[n].rstrip() for n in sorted(ranked)]
