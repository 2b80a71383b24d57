"""A hand-over in the user's language."""

from __future__ import annotations

import pytest

from danshari import data, handover_text
from danshari.handovers.language import detect_language
from danshari.testing import Call, Turn
from tests.support.material.documents import PYTEST, document_of, field_texts
from tests.support.material.ledger import bash


def test_chinese_conversations_get_a_chinese_document() -> None:
    todos = [{"content": "修复解析器", "status": "in_progress"}]
    turns = (
        Turn(
            text="根本原因是 src/parse.py 第 12 行的逗号。决定改用 Decimal。",
            calls=(bash("pytest", PYTEST, failed=True),),
        ),
        Turn(
            text="把上限调到 40 没有效果。",
            calls=(Call(name="TodoWrite", arguments={"todos": todos}, result="ok"),),
            user="不要改动公共接口。",
        ),
    )
    document = document_of(*turns, request="请修复解析器的错误。")
    text = handover_text(document)
    assert document.language == "zh"
    assert "## 用户原话" in text
    assert "不要改动公共接口。" in text
    assert field_texts(document, "conclusions") == ["根本原因是 src/parse.py 第 12 行的逗号。"]
    assert field_texts(document, "decisions") == ["决定改用 Decimal。"]
    assert "把上限调到 40 没有效果。" in field_texts(document, "ruled_out")
    assert "## Goal" not in text


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Não altere o banco de dados.", "pt"), ("Continue com a correção.", "pt"), ("Corrige el archivo y no toques los datos.", "es"),
        ("Bitte ändere die Datei nicht und lass alle Tests laufen.", "de"), ("Corrige le fichier et ne touche pas aux données.", "fr"),
        ("テストを直してください。", "ja"), ("테스트를 고쳐 주세요.", "ko"), ("Исправь парсер в src/parse.py.", "ru"),
        ("Correggi il file e non toccare i dati.", "it"), ("请修复 src/parse.py", "zh"), ("Fix src/no_die_las.py and run `der die das`.", "en"),
        ("", "en"), ("go", "en"),
    ],
)  # fmt: skip
def test_the_language_of_the_user(text: str, language: str) -> None:
    assert detect_language([text], data.load_phrases().values()) == language


def test_every_language_has_every_word() -> None:
    english = data.load_phrases()["en"]
    for row in data.load_phrases().values():
        assert set(row.headings) == set(english.headings)
        assert len(set(row.headings.values())) == len(row.headings)
        assert set(row.texts) == set(english.texts)
        assert row.script or row.common
        assert "]" not in row.opening
