"""Searches in every kind of query."""

from __future__ import annotations

from danshari_bench.load.archive import make_test_entry
from hypothesis import given
from hypothesis import strategies as st

from danshari import Filters
from danshari.archive import MemoryArchive
from danshari.archive.sqlite import SqliteArchive
from danshari.archive.words import index_words
from tests.support.archives import entry


@given(st.text(alphabet=st.sampled_from("abcXYZ_0189.-压缩修复 \n/"), max_size=60))
def test_whatever_word_stands_in_a_text_finds_it(text: str) -> None:
    held = set(index_words(text))
    for word in text.split():
        assert set(index_words(word)) <= held


def test_identifiers_paths_commands_numbers_and_chinese(archive: SqliteArchive) -> None:
    archive.put([
        entry("def parse_ledger_total(entries):\n    return sum(entries)", name="Read", path="src/app/ledger.py"),
        entry("class HandleRequestRetry:\n    limit = 77123", name="Read", path="src/app/retry.py"),
        entry("3 failed: expected 9f31 got 77ab", name="Bash", label='{"command": "pytest -q tests/test_ledger.py"}'),
        entry("第三步：核对回执编号，失败后重试", name="Read", path="docs/设计.md"),
        entry("nothing to see here", name="Read", path="src/other.py"),
    ])  # fmt: skip
    for query, wanted in {
        "parse_ledger_total": "src/app/ledger.py", "ledger total": "src/app/ledger.py", "src/app/retry.py": "src/app/retry.py",
        "handle request": "src/app/retry.py", "77123": "src/app/retry.py", "核对回执": "docs/设计.md", "重试": "docs/设计.md",
    }.items():  # fmt: skip
        assert archive.search(query)[0].entry.path == wanted, query
    assert archive.search("pytest tests/test_ledger.py")[0].entry.name == "Bash"
    assert archive.search("zebra") == []
    assert archive.search("") == []
    assert archive.search("' OR \" NEAR( ) * ^ -") == []


def test_passages_filters_and_what_is_newer(archive: SqliteArchive) -> None:
    long = "\n".join(f"line {n} of plain words" for n in range(200)) + "\nneedle_here\nend"
    archive.put([
        entry(long, path="a.py", session="s1", turn=3, tier="process"),
        entry(long + "\nchanged", path="a.py", session="s1", turn=9, tier="evidence"),
        entry("needle_here failed", session="s2", project="p", failed=True),
    ])  # fmt: skip
    found = archive.search("needle_here", filters=Filters(session="s1"), limit=9)
    assert {p.entry.turn for p in found} == {3, 9}
    first = next(p for p in found if p.entry.turn == 3)
    assert first.start == 201
    assert "needle_here" in first.text
    assert first.newer == found[0].entry.id or first.newer == found[1].entry.id
    assert [p.entry.session for p in archive.search("needle_here", filters=Filters(failed=True))] == ["s2"]
    assert archive.search("needle_here", filters=Filters(project="q")) == []
    assert [p.entry.turn for p in archive.search("needle_here", filters=Filters(path="a.p", tier="evidence"))] == [9]


def test_the_archive_in_memory_searches_as_the_one_on_disk_does(archive: SqliteArchive) -> None:
    entries = [make_test_entry(n) for n in range(60)]
    memory = MemoryArchive(entries[:30])
    memory.search("ledger")
    memory.put(entries[30:])
    archive.put(entries)
    for query in ("run_41", "invoice mismatch", "mod7.py"):
        ours = [(p.entry.digest, p.start) for p in memory.search(query)]
        assert ours == [(p.entry.digest, p.start) for p in archive.search(query)], query


def test_filters_reach_beyond_the_best_matches(archive: SqliteArchive) -> None:
    archive.put([entry(f"make ledger total {n}", path=f"a{n}.py", turn=n) for n in range(300)])
    archive.put([entry("make ledger total failed here", path="src/x.py", failed=True)])
    assert [p.entry.failed for p in archive.search("make ledger total", filters=Filters(failed=True))] == [True]
    assert archive.search("make ledger total", filters=Filters(path="src/x"))[0].entry.path == "src/x.py"
