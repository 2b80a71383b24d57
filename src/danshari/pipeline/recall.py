"""Recall of archived originals by id, words, path or command, for a program and as tools for an agent.

A recall is answered from the archive, or from the conversation if the original is still there. An item
recalled often is shown again in full, and results of its kind are elided less readily
(`Compactor.learned`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from danshari.analysis.first_seen import strip_line_number
from danshari.archive.base import NO_FILTERS, Entry, Filters, Passage, make_entry
from danshari.archive.messages import read_message, stored_message_digest
from danshari.archive.words import index_words
from danshari.core.recall_tools import READ_TOOL, SEARCH_TOOL
from danshari.core.text import lazy_pattern, parse_arguments
from danshari.errors import DanshariError, RecallError
from danshari.pipeline import undo as restoring
from danshari.pipeline.state import Pipeline

_ID = lazy_pattern(r"[0-9a-f]{6,32}\Z")
_MAX_SHOWN_LINES = 12
"""Matching lines that a search shows of one passage."""
_RECALL_STEP, _MAX_RECALL_FACTOR = 1.5, 4.0
"""Factor by which a kind's fault weight grows with a recall, and its bound."""


def recall(run: Pipeline, query: str, *, limit: int = 5, filters: Filters = NO_FILTERS) -> list[Passage]:
    """Find passages by id or by words. Raises RecallError if nothing is found."""
    found = [_whole_passage(entry)] if (entry := _find_by_id(run, query)) else []
    if not found:  # no id: a commit hash, a number or a word of six letters a to f may look like one
        filters = _scoped(run, filters)
        found = run.settings.archive.search(query, limit=limit, filters=filters)
        if not found:
            raise RecallError(
                f"nothing recalled for {query!r}{_describe_filters(filters)}: no archived original holds these words"
            )
    _count_recall(run, found[0].entry)
    return found


def recall_whole(run: Pipeline, id_: str) -> list[Any]:
    """Return the whole messages that held the item with this recall id, as they came, oldest first.

    Raises RecallError if none of the conversation's items has the id.
    """
    track = run.state.track
    items = [i for i in track.facts.items if i.digest.startswith(id_)] if track is not None and len(id_) >= 6 else []
    if track is None or not items:
        raise RecallError(f"no message with {id_!r}: no item of this conversation has that recall id")
    archive, found = run.settings.archive, dict[int, Any]()
    for item in items:
        try:
            entry = archive.get(stored_message_digest(item.id))
            found[item.at[0]] = track.format.from_json(read_message(entry, lambda digest: archive.get(digest).text))
        except (RecallError, ValueError):  # it was never edited, or masked when it was stored: as it stands here
            found[item.at[0]] = track.messages[item.at[0]]
    return [found[at] for at in sorted(found)]


def _scoped(run: Pipeline, filters: Filters) -> Filters:
    """Limit a search that names no session and no project to this session, or to this project if it has no name."""
    if filters.session or filters.project:
        return filters
    name = run.state.name
    return replace(filters, session=name, project="" if name else run.settings.project)


def _describe_filters(filters: Filters) -> str:
    """Describe the filters of a search, for an error message."""
    parts = [f"{name} {value!r}" for name, value in asdict(filters).items() if value not in ("", None)]
    return f" in {', '.join(parts)}" if parts else ""


def _whole_passage(entry: Entry) -> Passage:
    return Passage(entry=entry, start=1, end=entry.text.count("\n") + 1)


def _find_by_id(run: Pipeline, digest: str) -> Entry | None:
    """Find an original by its id, in the archive or else in the conversation. Returns None if there is none."""
    if not _ID.match(digest):
        return None
    try:
        within = Filters(session=run.state.name, project=run.settings.project)
        return (
            run.settings.archive.get(digest, within=within)
            if run.settings.confined
            else run.settings.archive.get(digest)
        )
    except RecallError:
        for at, item in enumerate(run.state.track.facts.items if run.state.track else ()):
            if item.digest.startswith(digest):
                act = run.state.track.facts.act_at(at) if run.state.track else None
                return replace(make_entry(item, act.command if act else ""), path=act.path if act else "")
    return None


def _count_recall(run: Pipeline, entry: Entry) -> None:
    """Count a recall.

    The factor of the original's tool kind grows by 1.5, up to 4, so that its kind is elided less readily.
    Once an item was recalled as often as the policy's `recall_restore`, it is shown in full again.
    """
    session, track = run.state.session, run.state.track
    counts = dict(session.recalled)
    counts[entry.digest] = counts.get(entry.digest, 0) + 1
    learned = dict(session.learned)
    kind = tool_kind(run, entry)
    learned[kind] = min(learned.get(kind, 1.0) * _RECALL_STEP, _MAX_RECALL_FACTOR)
    run.state.session = replace(session, recalled=tuple(counts.items()), learned=tuple(learned.items()))
    if track is not None and 0 < run.settings.policy.recall.restore == counts[entry.digest]:
        places = [at for at in track.effects.texts if track.facts.items[at].digest == entry.digest]
        restoring.restore_items(run, track, places, (), "recall")


def tool_kind(run: Pipeline, entry: Entry) -> str:
    """Return the kind of the tool that produced an original."""
    return run.state.track.facts.tools.find_row(entry.name).kind if run.state.track else "other"


# ── as tools ─────────────────────────────────────────────────────────────────────────────────────────────────────


def run_recall_tool(state: Pipeline, name: str, arguments: str | Mapping[str, Any]) -> str:
    """Answer a call of a recall tool. Errors become a text that says what to do instead."""
    try:
        given = dict(arguments) if isinstance(arguments, Mapping) else parse_arguments(arguments)
        if name == SEARCH_TOOL:
            return _answer_search(state, given)
        if name == READ_TOOL:
            return _answer_read(state, given)
    except (RecallError, ValueError, TypeError, OverflowError) as error:
        return f"{error}. Try fewer or other words, or an id shown as `recall` or `archived as`."
    except DanshariError as error:
        return f"The archive did not answer: {error}"
    return f"{name!r} is no recall tool; known: {SEARCH_TOOL}, {READ_TOOL}."


def _answer_search(state: Pipeline, given: Mapping[str, Any]) -> str:
    """Answer `recall_search`: the passages found, best first. Raises RecallError if nothing is found."""
    query = str(given.get("query", "")).strip()
    if not query:
        raise RecallError("recall_search needs a query")
    everywhere = bool(given.get("everywhere")) and bool(state.settings.project)
    filters = Filters(
        project=state.settings.project if everywhere else "",
        path=str(given.get("path") or ""),
        failed=bool(given["failed"]) if given.get("failed") is not None else None,
    )
    found = recall(state, query, filters=filters)
    parts = [f"{len(found)} archived passages for {query!r}, best first; recall_read shows the whole:"]
    room = state.settings.policy.recall.length // max(len(found), 1)
    for passage in found:
        parts.append(_passage_heading(passage) + "\n" + _matching_lines(passage, query, room))
    return "\n\n".join(parts)


def _passage_heading(passage: Passage) -> str:
    """Return the heading of a passage: id, tool, path or command, round and lines."""
    entry = passage.entry
    what = " ".join(filter(None, [entry.name, entry.path or _command_text(entry.label)]))
    total = entry.text.count("\n") + 1
    parts = [entry.id, what, f"round {entry.turn}", f"lines {passage.start}-{passage.end} of {total}"]
    parts += ["failed"] if entry.failed else []
    parts += [f"a newer version is {passage.newer}"] if passage.newer else []
    return f"[{' · '.join(filter(None, parts))}]"


def _command_text(label: str) -> str:
    """Return the first text argument of a call, at most 100 characters."""
    given = parse_arguments(label)
    return next((str(v)[:100] for v in given.values() if isinstance(v, str)), label[:100])


def _matching_lines(passage: Passage, query: str, room: int) -> str:
    """Return the lines of a passage that share most words with the query, verbatim, with their numbers."""
    asked = set(index_words(query))
    lines = passage.text.split("\n")
    numbered = sum(strip_line_number(line) != line for line in lines) > len(lines) / 2
    filled = [n for n, line in enumerate(lines) if strip_line_number(line).strip()]
    ranked = sorted(filled, key=lambda n: (-len(asked & set(index_words(lines[n]))), n))
    kept: list[int] = []
    for n in ranked[:_MAX_SHOWN_LINES]:
        room -= len(lines[n]) + 8
        if room < 0 and kept:
            break
        kept.append(n)
    return "\n".join(lines[n][:600] if numbered else f"{passage.start + n}| {lines[n][:600]}" for n in sorted(kept))


def _answer_read(state: Pipeline, given: Mapping[str, Any]) -> str:
    """Answer `recall_read`: lines of an original, or a part of one line that is too long to show whole."""
    asked = str(given.get("id", "")).strip().lower()
    entry = _find_by_id(state, asked)
    if entry is None:
        raise RecallError(f"nothing recalled for {asked!r}: no original has this id; give one of 6 hex digits or more")
    _count_recall(state, entry)
    lines, most = entry.text.split("\n"), max(state.settings.policy.recall.length, 200)
    start = max(int(given.get("start") or 1), 1)
    end = max(min(int(given.get("end") or len(lines)), len(lines)), start)
    if start > len(lines):
        raise RecallError(f"{entry.id} has {len(lines)} lines; line {start} is beyond")
    if len(lines[start - 1]) > most:
        return _show_long_line(entry, lines, start, max(int(given.get("offset") or 0), 0), most)
    shown: list[str] = []
    for line in lines[start - 1 : end]:
        most -= len(line) + 1
        if most < 0 and shown:
            break
        shown.append(line)
    last = start + len(shown) - 1
    rest = f"; go on with start={last + 1}" if last < end else ""
    head = f"[recalled {_passage_heading(Passage(entry=entry, start=start, end=last))[1:-1]}{rest}]"
    return "\n".join([head, *shown])


def _show_long_line(entry: Entry, lines: list[str], number: int, offset: int, most: int) -> str:
    """Show `most` characters of a long line from `offset` on, and how to read on."""
    line = lines[number - 1]
    end = offset + most
    rest = f"start={number} offset={end}" if end < len(line) else f"start={number + 1}" if number < len(lines) else ""
    span = f"characters {offset + 1:,}-{min(end, len(line)):,} of the {len(line):,} of line {number}"
    return f"[recalled {entry.id} · {span}{'; go on with ' + rest if rest else ''}]\n{line[offset:end]}"
