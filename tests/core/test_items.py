"""Items: arguments in one spelling, and ids that survive what must not matter."""

from __future__ import annotations

from danshari.core.items import canonical_arguments, canonical_json
from danshari.formats import FORMATS
from danshari.testing import Call, Turn, conversation


def test_canonical_arguments_ignore_spelling() -> None:
    assert canonical_arguments('{"b": 1.0, "a": [2, {"d": 1, "c": null}]}') == canonical_json(
        {"a": [2.0, {"c": None, "d": 1}], "b": 1}
    )
    assert canonical_arguments("not json") == "not json"
    assert canonical_json({"x": 1, "cache_control": {"type": "ephemeral"}}) == canonical_json({"x": 1})


def test_ids_survive_what_must_not_matter() -> None:
    """Key order, moved cache marks, string or parts, stripped thinking and an edited neighbour keep ids."""
    turns = [
        Turn(thinking="hm", calls=(Call(name="Read", arguments={"a": 1, "b": 2}, result=f"r{n}"),)) for n in range(4)
    ]
    plain = conversation("anthropic", "go", turns)
    wire = FORMATS["anthropic"]
    ids = {i.text: i.id for i in wire.read(plain) if i.kind != "reasoning"}
    changed = conversation("anthropic", "go", [Turn(calls=t.calls) for t in turns])
    changed[0]["content"] = "go"
    changed[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    changed[1]["content"][-1]["input"] = {"b": 2.0, "a": 1}
    changed[2]["content"][0]["content"] = "cleared"
    again = {i.text: i.id for i in wire.read(changed)}
    same = [ids[text] == again[text] for text in ids if text in again]
    assert all(same)
    assert len(same) >= 5
