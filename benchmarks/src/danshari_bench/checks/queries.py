"""Measure how well the archive's search finds each original, with queries as agents write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

from danshari.archive.base import Entry
from danshari.archive.index import split_passages
from danshari.archive.sqlite import SqliteArchive
from danshari.compactor import Compactor
from danshari.core.text import parse_arguments
from danshari.formats import find_format
from danshari.replay.atoms import AtomExtractor, classify_atom
from danshari.replay.lookup_ladder import QUERY_KIND_OF_ATOM, QUERY_KINDS
from danshari.replay.prompt_cache import DEFAULT_MODEL, request_boundaries
from danshari.sessions import RecordedSession

_WIDE = re.compile(r"[一-鿿]{2,8}")
SearchCounts = dict[str, list[float]]
"""Kind → [searches, found first, found among three, chance of three]."""


def search_originals(job: tuple[RecordedSession, str]) -> tuple[int, SearchCounts]:
    """Replay one session under a policy and search for every archived original.

    Returns the number of originals and the counts by kind of query.
    """
    session, policy = job
    wire, archive = find_format(session.format), SqliteArchive(":memory:")
    keeper = Compactor(
        policy, model=session.model or DEFAULT_MODEL, archive=archive, session="s", format=session.format
    )
    for cut in request_boundaries(session, wire):
        keeper.compact(session.messages[:cut])
    entries = _all_entries(archive)
    total = sum(len(list(split_passages(entry.text))) for entry in entries)
    found: SearchCounts = {kind: [0.0, 0.0, 0.0, 0.0] for kind in QUERY_KINDS}
    atoms = {entry.digest: _text_atoms(entry.text) for entry in entries}
    held = Counter(atom for one in atoms.values() for atom in one)
    for entry in entries if total > 3 else ():
        own = len(list(split_passages(entry.text)))
        for kind, query in _make_queries(entry, atoms[entry.digest], held).items():
            hits = [passage.entry.digest for passage in archive.search(query, limit=3)]
            row = found[kind]
            row[0] += 1
            row[1] += hits[:1] == [entry.digest]
            row[2] += entry.digest in hits
            row[3] += 1 - comb(total - own, 3) / comb(total, 3) if total - own >= 3 else 1.0
    archive.close()
    return len(entries), found


def _all_entries(archive: SqliteArchive) -> list[Entry]:
    digests = archive.run_query(
        lambda base: base.execute("SELECT DISTINCT digest FROM entry WHERE kind != 'message'").fetchall()
    )
    return [archive.get(digest) for (digest,) in digests]


def _text_atoms(text: str) -> set[str]:
    extract = AtomExtractor()
    found = {atom for line in text.split("\n") for atom in extract(line[:2000])}
    return found | set(_WIDE.findall(text))


def _make_queries(entry: Entry, atoms: set[str], held: Counter[str]) -> dict[str, str]:
    """Return kind → query for an original: its rarest atom of each kind, its path, or its command."""
    found = {}
    for atom in sorted(atoms, key=lambda a: (held[a], -len(a), a)):
        kind = "chinese" if _WIDE.fullmatch(atom) else QUERY_KIND_OF_ATOM[classify_atom(atom)]
        if kind != "path" and kind not in found:
            found[kind] = atom
    if entry.path:
        found["path"] = entry.path
    elif command := next((v for k, v in parse_arguments(entry.label).items() if k in ("command", "cmd")), ""):
        found["command"] = str(command)[:200]
    return found


def measure_queries(
    sessions: Sequence[RecordedSession], policy: str, each: Callable[[Any, Sequence[Any], str], list[Any]]
) -> dict[str, Any]:
    """Search in every session and pool the shares found first, found among three, and expected by chance."""
    results = each(search_originals, [(session, policy) for session in sessions], "searching")
    pooled: SearchCounts = {kind: [sum(r[1][kind][n] for r in results) for n in range(4)] for kind in QUERY_KINDS}
    kinds = {
        kind: {"n": round(n), "first": first / n, "three": three / n, "chance": chance / n}
        for kind, (n, first, three, chance) in pooled.items()
        if n
    }
    used = [r for r in results if r[0]]
    return {"format": 1, "policy": policy, "sessions": len(used), "originals": sum(r[0] for r in used), "kinds": kinds}
