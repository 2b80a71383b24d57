"""Expiry, export and import."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import ArchiveError
from danshari.archive import maintenance as keeping
from danshari.archive.sqlite import SqliteArchive
from tests.support.archives import entry


def test_expiry_by_days_rounds_and_size_spares_what_is_pinned(archive: SqliteArchive) -> None:
    day = 86_400.0
    archive.put([
        entry("old transient", tier="transient", at=1.0, session="a"),
        entry("old pinned", tier="transient", at=1.0, pinned=True, session="a"),
        entry("new transient", tier="transient", at=20 * day, session="a"),
        entry("spared", tier="transient", at=1.0, session="live"),
        entry("early evidence", tier="evidence", at=20 * day, turn=1, session="b"),
        entry("late evidence" * 9, tier="evidence", at=20 * day, turn=90, session="b"),
    ])  # fmt: skip
    plan = {"now": 21 * day, "spare": ["live"], "rounds": {"evidence": 50}}
    told = keeping.expire(archive, **plan, dry_run=True)
    assert told.entries == 2
    assert len(archive) == 6
    assert keeping.expire(archive, **plan) == told
    assert archive.search("early") == []
    assert archive.search("pinned")
    keeping.expire(archive, now=21 * day, most=1)
    assert {e["text"] for e in map(json.loads, list(keeping.export_archive(archive))[1:])} == {"old pinned"}
    assert keeping.verify_archive(archive) == []


@given(st.lists(st.text(max_size=80), min_size=1, max_size=6))
def test_an_export_taken_in_is_the_same_archive(texts: list[str]) -> None:
    one, other = SqliteArchive(":memory:", clock=lambda: 5.0), SqliteArchive(":memory:")
    one.put(entry(text, session=f"s{n % 2}", turn=n) for n, text in enumerate(dict.fromkeys(texts)))
    lines = list(keeping.export_archive(one))
    assert keeping.import_archive(other, lines) == len(one)
    assert list(keeping.export_archive(other)) == lines
    with pytest.raises(ArchiveError, match="line 1 is no line of an export"):
        keeping.import_archive(other, ["{}"])
