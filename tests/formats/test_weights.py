"""Blocks that are not understood count by what stands in them, not by the length of their bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danshari.formats import find_format
from danshari.formats.base import FILE_TOKENS, IMAGE_TOKENS

FRAMES = (
    lambda data, kind: {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"image_url": f"data:{kind};base64,{data}"},
    },
    lambda data, kind: {"type": "shot", "content": [{"source": {"type": "base64", "media_type": kind, "data": data}}]},
    lambda data, kind: {"type": "shot", "blob": {"mimeType": kind, "data": data}, "note": "a page"},
)


@given(
    frame=st.sampled_from(FRAMES),
    size=st.integers(600, 400_000),
    kind=st.sampled_from(("image/png", "application/pdf")),
)
def test_media_count_alike_whatever_their_bytes(frame: Any, size: int, kind: str) -> None:
    (item,) = find_format("openai-responses").read([frame("aB3/" * (size // 4), kind)])
    weight = IMAGE_TOKENS if kind.startswith("image") else FILE_TOKENS
    assert weight <= item.weight <= weight + 60


@given(sealed=st.integers(600, 100_000), words=st.integers(0, 2000))
def test_sealed_bytes_and_words_count_each_by_their_own_measure(sealed: int, words: int) -> None:
    block = {"type": "web_search_result", "encrypted_content": "xY9-" * (sealed // 4), "text": "word " * words}
    (item,) = find_format("anthropic").read([{"role": "assistant", "content": [block]}])
    expected = sealed / 6 + 5 * words / 4
    assert expected - 10 <= item.weight <= expected + 60
