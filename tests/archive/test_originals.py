"""Originals come back byte for byte, by any id that fits one."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor, Entry, RecallError
from danshari.archive import MemoryArchive
from danshari.archive import maintenance as keeping
from danshari.archive.sqlite import SqliteArchive
from danshari.core.items import Digest
from danshari.testing import Turn, conversation
from tests.support.archives import entry
from tests.support.material.ledger import bash


@given(st.lists(st.text(max_size=300), max_size=8))
def test_every_original_comes_back_byte_for_byte(texts: list[str]) -> None:
    archive = SqliteArchive(":memory:")
    entries = [entry(text, turn=n) for n, text in enumerate(dict.fromkeys(texts))]
    archive.put(entries)
    archive.put(entries)
    assert len(archive) == len(entries)
    for e in entries:
        assert replace(archive.get(e.digest), at=0.0) == e
        assert archive.get(e.digest[:20]).text == e.text
    assert keeping.verify_archive(archive) == []


def test_half_surrogates_binary_and_a_hundred_megabytes(archive: SqliteArchive) -> None:
    odd = entry("half \ud83d of an emoji \x00\x1b[31m \udcff")
    big = entry("x" * 20 + "\n" + "0123456789" * 10_000_000)
    archive.put([odd, big])
    assert archive.get(odd.digest).text == odd.text
    assert archive.get(big.digest).text == big.text
    assert keeping.verify_archive(archive) == []


def test_ids_that_fit_none_or_several(archive: SqliteArchive) -> None:
    archive.put(
        [Entry(digest=Digest("abcdef" + "0" * 26), text="a"), Entry(digest=Digest("abcdef" + "1" * 26), text="b")]
    )
    with pytest.raises(RecallError, match="2 entries begin so"):
        archive.get("abcdef")
    with pytest.raises(RecallError, match="no entry begins so"):
        archive.get("abc")
    assert archive.get("abcdef1").text == "b"


@pytest.mark.skipif(os.name != "posix", reason="only POSIX files have an owner's bits")
def test_only_its_owner_may_read_it(archive: SqliteArchive) -> None:
    assert archive.path is not None
    assert stat.S_IMODE(archive.path.stat().st_mode) == 0o600


def test_masked_and_unmasked_originals_of_one_digest_stand_side_by_side(archive: SqliteArchive) -> None:
    digest = Digest("d" * 32)
    archive.put([Entry(digest=digest, text="key=[masked]\nplain", session="masks")])
    archive.put([Entry(digest=digest, text="key=sk-secret\nplain\nmore", session="does not")])
    assert archive.get(digest).text == "key=sk-secret\nplain\nmore"
    assert keeping.verify_archive(archive) == []
    assert keeping.expire(archive, now=1e12, most=1).entries == 2
    assert keeping.verify_archive(archive) == []
    assert len(archive) == 0


def test_odd_labels_paths_and_numbers_are_stored(archive: SqliteArchive) -> None:
    archive.put([entry("odd", label="half \ud83d", path="a\udcff.py", start=10**30, turn=-(10**30))])
    assert archive.get(entry("odd").digest).path == "a?.py"
    assert MemoryArchive([entry("odd", label="half \ud83d")]).search("odd")


def test_media_are_archived() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 50}}
    messages = conversation("anthropic", "go", [Turn(text="w " * 900, calls=(bash("shot", "ok"),)) for _ in range(9)])
    messages[2]["content"][0]["content"] = [{"type": "text", "text": "seen"}, image]
    engine = Compactor("balanced", window=4000, format="anthropic")
    engine.compact(messages, force=True)
    assert any("QUJDQUJD" in passage.text for passage in engine.recall("image base64 media_type"))
