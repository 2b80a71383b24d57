"""Statements of the agent, by kind; the newer wins."""

from __future__ import annotations

from danshari.handovers.claims import claim_key as without_values
from danshari.testing import Turn
from tests.support.material.documents import document_of, field_texts


def test_statements_by_kind_and_the_newer_wins() -> None:
    document = document_of(
        Turn(text="The root cause is the comma in src/parse.py line 12. I decided to use Decimal instead of float."),
        Turn(text="Raising the limit to 40 did not help. Confirmed: the cache holds 12 entries."),
        Turn(text="Confirmed: the cache holds 15 entries."),
    )
    assert field_texts(document, "conclusions") == [
        "The root cause is the comma in src/parse.py line 12.",
        "Confirmed: the cache holds 15 entries.",
    ]
    assert field_texts(document, "decisions") == ["I decided to use Decimal instead of float."]
    assert "Raising the limit to 40 did not help." in field_texts(document, "ruled_out")
    assert without_values("Port 8080 is open.") == without_values("Port 9090 is open.")


def test_what_was_cancelled_is_gone() -> None:
    document = document_of(
        Turn(text="Decided: sessions go into Redis, because it is fast."),
        Turn(text="Cancelled: sessions no longer go into Redis although it is fast; Postgres takes them."),
    )
    assert [t for t in field_texts(document, "decisions") if t.startswith("Decided")] == []
