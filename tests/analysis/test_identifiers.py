"""Names in text."""

from __future__ import annotations

from danshari.analysis.identifiers import find_names


def test_names_are_exact_words() -> None:
    assert set(find_names("see src/handleRequest.ts and foo_bar, v2.1 at 12345, not words")) >= {
        "handleRequest.ts",
        "handleRequest",
        "foo_bar",
        "12345",
    }
    assert find_names("the quick brown fox jumps over 12 dogs") == ()
