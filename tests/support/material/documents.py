"""Hand-overs of short conversations and the texts of their fields."""

from __future__ import annotations

from typing import Any

from danshari import handover
from danshari.core.handover import Handover
from danshari.testing import Turn, conversation


def document_of(*turns: Turn, request: str = "Fix the parser.", **options: Any) -> Handover:
    return handover(conversation("anthropic", request, turns), format="anthropic", **options)


def field_texts(document: Handover, name: str) -> list[str]:
    return [p.text for p in document[name]]


PYTEST = """\
============================= test session starts ==============================
collected 3 items
tests/test_parser.py .F.                                                [100%]
=================================== FAILURES ===================================
__________________________________ test_commas _________________________________
>       assert parse("1,5") == 1.5
E       AssertionError: assert 15 == 1.5
tests/test_parser.py:12: AssertionError
=========================== short test summary info ============================
FAILED tests/test_parser.py::test_commas - AssertionError: assert 15 == 1.5
========================= 1 failed, 2 passed in 0.12s =========================="""
