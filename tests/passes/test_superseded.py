"""What a later result overtakes goes, with a pointer to what survives."""

from __future__ import annotations

import json

from danshari import Compactor, compact, data
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import LEDGER_BOOK, LEDGER_LINES, ledger_talk, shown_results


def test_without_that_re_reads_point_to_the_surviving_view() -> None:
    policy = data.load_policy("balanced").with_fields(admit_reread_over=0)
    part = Call(name="Read", arguments={"file_path": "a.py", "offset": 10, "limit": 20}, result=LEDGER_BOOK)
    whole = Call(name="Read", arguments={"file_path": "a.py"}, result=LEDGER_BOOK + "\nmore")
    old, new = shown_results(compact(ledger_talk(part, whole), policy=policy), "Read")
    assert json.loads(old)["gist"] == "the file was read again later"
    assert new == whole.result


def test_an_error_overtaken_by_success() -> None:
    bad = Call(name="Bash", arguments={"command": "pytest -q"}, result=LEDGER_BOOK[:2000] + "\nexit code 1")
    good = Call(name="Bash", arguments={"command": "pytest  -q"}, result="3 passed")
    result = compact(ledger_talk(bad, good))
    assert json.loads(shown_results(result, "Bash")[0])["gist"] == "the same command succeeded later"


def test_a_view_before_a_rewrite_goes_and_one_before_an_edit_stays() -> None:
    read = Call(name="Read", arguments={"file_path": "a.py"}, result=LEDGER_BOOK)
    write = Call(name="Write", arguments={"file_path": "a.py", "content": LEDGER_BOOK}, result="ok")
    edit = Call(name="Edit", arguments={"file_path": "a.py", "old_string": "x", "new_string": "y"}, result="ok")
    assert "written anew" in shown_results(compact(ledger_talk(read, write)), "Read")[0]
    assert shown_results(compact(ledger_talk(read, edit)), "Read") == [LEDGER_BOOK]


def test_what_points_to_a_survivor_is_only_said_where_it_survives() -> None:
    reads = [Call(name="Read", arguments={"file_path": "a.py"}, result=LEDGER_LINES * 2 + f"\n{n}") for n in range(3)]
    short = [Call(name="Read", arguments={"file_path": f"{n}.py"}, result="x") for n in range(8)]
    policy = data.load_policy("balanced").with_fields(admit_reread_over=0, elide_evidence=0.1, elide_process=0.1)
    fresh = compact(
        conversation("openai-chat", "go", [Turn(calls=(c,)) for c in (*short, *reads)]), model="gpt-5", policy=policy
    )
    assert not fresh.edits, "the newest rounds stay"
    kept = compact(
        conversation("openai-chat", "go", [Turn(calls=(c,)) for c in (*reads, *short[:1] * 4)]),
        model="gpt-5",
        policy=policy,
    )
    assert [e.by for e in kept.edits] == ["superseded", "superseded"]
    gone = compact(
        conversation("openai-chat", "go", [Turn(calls=(c,)) for c in (*reads, *short)]), model="gpt-5", policy=policy
    )
    assert [e.by for e in gone.edits] == ["elide"] * 3


def test_an_old_copy_of_a_changed_file_goes_before_the_newest_one() -> None:
    """Under pressure the copy from before an edit goes, even from the newest rounds; the copy after it stays whole."""
    old, new = (f"VERSION = {n}\n" + LEDGER_BOOK for n in (1, 2))
    others = [
        Call(name="Read", arguments={"file_path": f"other{n}.py"}, result=LEDGER_BOOK + f"# {n}\n") for n in range(6)
    ]
    work = [
        Call(name="Read", arguments={"file_path": "config.py"}, result=old),
        Call(name="Edit", arguments={"file_path": "config.py", "old_string": "1", "new_string": "2"}, result="edited"),
        Call(name="Read", arguments={"file_path": "config.py"}, result=new),
        Call(name="Bash", arguments={"command": "check"}, result="all good"),
    ]
    messages = conversation("openai-chat", "go", [Turn(calls=(call,)) for call in (*others, *work)])
    for force in (None, True):
        policy = data.load_policy("balanced").with_fields(commit_mode="trigger", commit_token_trigger=len(LEDGER_BOOK))
        shown = str(Compactor(policy, model="gpt-5").compact(messages, force=force).messages)
        assert str(new)[:400].replace("\n", "\\n") in shown
        assert "VERSION = 1" not in shown
