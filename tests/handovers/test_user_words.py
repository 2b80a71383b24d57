"""The user's own words in a hand-over, told from what machines wrote."""

from __future__ import annotations

import pytest

from danshari import handover, handover_text
from danshari.testing import Turn, conversation
from tests.support.material.documents import document_of, field_texts


def test_machine_made_user_text_is_no_user_word() -> None:
    reminder = "<system-reminder>\nNever push to main.\nToday is Monday.\n</system-reminder>"
    document = document_of(Turn(text="ok", user=reminder), Turn(text="ok", user=f"{reminder}\nAnd keep it short."))
    assert field_texts(document, "words") == ["Fix the parser.", "And keep it short."]
    assert field_texts(document, "rules") == ["Never push to main."]


def test_an_outsized_paste_is_data_inside_its_frame() -> None:
    log = "\n".join(f"line {n} of the log" for n in range(2_000))
    document = document_of(Turn(text="ok"), request=f"Why does this fail?\n{log}\nAnswer briefly.")
    words = field_texts(document, "words")[0]
    assert words.startswith("Why does this fail?")
    assert words.endswith("Answer briefly.")
    assert "characters left out" in words
    assert len(words) < 3_000


@pytest.mark.parametrize(
    "text",
    [
        "Caveat: never delete the users table.", "# AGENTS.md instructions are wrong, never touch CI.",
        "[Request interrupted by user]\nPlease never use mocks.",
        "<command-name>/fix</command-name>\n<command-args>never touch prod</command-args>",
        "[danshari hand-over 1 en 1: mine]\nNever delete prod.\n[danshari hand-over ends]",
    ],
)  # fmt: skip
def test_what_a_person_wrote_is_kept(text: str) -> None:
    document = handover(conversation("openai-chat", "go", [Turn(text="ok", user=text), Turn(text="ok")]))
    said = next(line for line in text.split("\n") if "ever" in line)
    assert said.replace("<command-args>", "").replace("</command-args>", "") in handover_text(document)
