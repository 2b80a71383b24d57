"""The store of results."""

from __future__ import annotations

from pathlib import Path

from danshari_bench.comparison.cache import ResultStore


def test_a_half_written_file_is_set_aside(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.put("abcd", {"x": 1})
    assert store.get("abcd") == {"x": 1}
    store.path("abcd").write_text('{"format": 1, "val', encoding="utf-8")
    assert store.get("abcd") is None
    assert store.path("abcd").with_suffix(".broken").exists()
    store.put("abcd", 2)
    assert store.get("abcd") == 2
    store.path("abcd").write_text('{"format": 99, "value": 3}', encoding="utf-8")
    assert store.get("abcd") is None


def test_a_folder_that_cannot_be_written_only_costs_the_reuse(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    store = ResultStore(tmp_path / "file")
    store.put("abcd", 1)
    assert store.get("abcd") is None
