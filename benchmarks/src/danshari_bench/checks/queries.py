"""Searches as agents write them, one of each kind for every original that a policy archived."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

from danshari.archive.base import Entry
from danshari.archive.index import passages
from danshari.archive.sqlite import SqliteArchive
from danshari.compactor import Compactor
from danshari.core.text import parse_arguments
from danshari.formats import named
from danshari.replay.atoms import Atoms, classify
from danshari.replay.lookup_ladder import KINDS, QUERY_KINDS
from danshari.replay.prompt_cache import DEFAULT_MODEL, cuts
from danshari.sessions import Recorded

_WIDE = re.compile(r"[一-鿿]{2,8}")
Counts = dict[str, list[float]]
"""Kind → [searches, found first, found among three, chance of three]."""


def searched(job: tuple[Recorded, str]) -> tuple[int, Counts]:
    """Replay one session under a policy and search for every original it archived; give their number and the counts."""
    session, policy = job
    wire, archive = named(session.format), SqliteArchive(":memory:")
    keeper = Compactor(
        policy, model=session.model or DEFAULT_MODEL, archive=archive, session="s", format=session.format
    )
    for cut in cuts(session, wire):
        keeper.compact(session.messages[:cut])
    entries = _entries(archive)
    total = sum(len(list(passages(entry.text))) for entry in entries)
    found: Counts = {kind: [0.0, 0.0, 0.0, 0.0] for kind in QUERY_KINDS}
    atoms = {entry.digest: _atoms(entry.text) for entry in entries}
    held = Counter(atom for one in atoms.values() for atom in one)
    for entry in entries if total > 3 else ():
        own = len(list(passages(entry.text)))
        for kind, query in _queries(entry, atoms[entry.digest], held).items():
            hits = [passage.entry.digest for passage in archive.search(query, limit=3)]
            row = found[kind]
            row[0] += 1
            row[1] += hits[:1] == [entry.digest]
            row[2] += entry.digest in hits
            row[3] += 1 - comb(total - own, 3) / comb(total, 3) if total - own >= 3 else 1.0
    archive.close()
    return len(entries), found


def _entries(archive: SqliteArchive) -> list[Entry]:
    digests = archive.reading(lambda base: base.execute("SELECT DISTINCT digest FROM entry").fetchall())
    return [archive.get(digest) for (digest,) in digests]


def _atoms(text: str) -> set[str]:
    extract = Atoms()
    found = {atom for line in text.split("\n") for atom in extract(line[:2000])}
    return found | set(_WIDE.findall(text))


def _queries(entry: Entry, atoms: set[str], held: Counter[str]) -> dict[str, str]:
    """Give the searches that an original is looked for with: its rarest atom of a kind, its path, its command."""
    found = {}
    for atom in sorted(atoms, key=lambda a: (held[a], -len(a), a)):
        kind = "chinese" if _WIDE.fullmatch(atom) else KINDS[classify(atom)]
        if kind != "path" and kind not in found:
            found[kind] = atom
    if entry.path:
        found["path"] = entry.path
    elif command := next((v for k, v in parse_arguments(entry.label).items() if k in ("command", "cmd")), ""):
        found["command"] = str(command)[:200]
    return found


def measure(
    sessions: Sequence[Recorded], policy: str, each: Callable[[Any, Sequence[Any], str], list[Any]]
) -> dict[str, Any]:
    """Search in every session and pool."""
    results = each(searched, [(session, policy) for session in sessions], "searching")
    pooled: Counts = {kind: [sum(r[1][kind][n] for r in results) for n in range(4)] for kind in QUERY_KINDS}
    kinds = {
        kind: {"n": round(n), "first": first / n, "three": three / n, "chance": chance / n}
        for kind, (n, first, three, chance) in pooled.items()
        if n
    }
    used = [r for r in results if r[0]]
    return {"format": 1, "policy": policy, "sessions": len(used), "originals": sum(r[0] for r in used), "kinds": kinds}
