"""Written bodies and old plans."""

from __future__ import annotations

import json

from danshari import compact
from danshari.core.placeholder import is_compacted_text
from danshari.testing import Call
from tests.support.material.ledger import LEDGER_BOOK, ledger_talk


def test_written_bodies_go_and_notes_stay() -> None:
    write = Call(name="Write", arguments={"file_path": "a.py", "content": LEDGER_BOOK}, result="ok")
    note = Call(name="frobnicate", arguments={"thought": LEDGER_BOOK}, result="ok")
    assert compact(ledger_talk(write, note)).edits == (), "by default what the agent wrote stays"
    result = compact(ledger_talk(write, note), policy="repair")
    arguments = [json.loads(c["function"]["arguments"]) for m in result.messages for c in m.get("tool_calls", ())]
    assert arguments[0]["file_path"] == "a.py"
    assert is_compacted_text(arguments[0]["content"])
    assert "written to disk" in arguments[0]["content"]
    assert arguments[1]["thought"] == LEDGER_BOOK


def test_a_failed_write_keeps_its_body() -> None:
    write = Call(
        name="Write", arguments={"file_path": "a.py", "content": LEDGER_BOOK}, result="Error: permission denied"
    )
    result = compact(ledger_talk(write))
    assert json.loads(result.messages[1]["tool_calls"][0]["function"]["arguments"])["content"] == LEDGER_BOOK


def test_old_plans_go_and_the_newest_stays() -> None:
    todo = [Call(name="TodoWrite", arguments={"todos": [{"content": f"{n} " * 400}]}, result="ok") for n in range(3)]
    result = compact(ledger_talk(*todo))
    arguments = [c["function"]["arguments"] for m in result.messages for c in m.get("tool_calls", ())][:3]
    assert [is_compacted_text(a) for a in arguments] == [True, True, False]
