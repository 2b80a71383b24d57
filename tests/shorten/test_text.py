"""Long texts in place of which a part of their lines is shown."""

from __future__ import annotations

from danshari import Compactor
from danshari.shorten.text import choose_kept_lines
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import facts_of, ledger_talk


def test_a_file_of_long_lines_keeps_its_ends_and_pathological_lines_take_no_time() -> None:
    import time

    minified = "!function(e,t){" + "var a=function(){return 42};" * 1200 + "}"
    for name, arguments, text in (
        ("Read", {"file_path": "app.min.js"}, minified), ("Read", {"file_path": "lib.js"}, "/* licence */\n" + minified),
        ("Bash", {"command": "curl -i x"}, "HTTP/1.1 200 OK\n" + minified), ("Bash", {"command": "xxd -p x"}, "ab" * 60_000),
        ("Bash", {"command": "x"}, "x" + " " * 60_000 + "\n" + "y\n" * 3000), ("Grep", {"pattern": "x"}, ("a" * 40_000 + "\n") * 3),
    ):  # fmt: skip
        begun = time.process_time()
        messages = conversation("openai-chat", "go", [Turn(calls=(Call(name=name, arguments=arguments, result=text),))])
        shown = Compactor("balanced").compact(messages).messages[-1]["content"]
        assert time.process_time() - begun < 5, name
        assert len(shown) > 500 or len(text) < 500, (name, arguments)


def test_without_weights_plain_rules_choose(monkeypatch: object) -> None:
    log = "\n".join(f"2026-03-01 INFO worker {n}" for n in range(300)) + "\nERROR mismatch in part 7\nend"
    facts = facts_of(
        conversation("openai-chat", "go", [Turn(calls=(Call(name="Bash", arguments={"command": "make"}, result=log),))])
    )
    facts.weights = None
    at = len(facts.items) - 1
    numbers = choose_kept_lines(facts, at, log.split("\n"), 900)
    assert 300 in numbers


def test_a_long_read_keeps_blocks_of_its_likeliest_lines_and_says_how_to_get_the_rest() -> None:
    source = "\n\n".join(f"def step_{n}(ledger):\n    entry = ledger[{n}]\n    return entry.total" for n in range(400))
    read = Call(name="Read", arguments={"file_path": "a.py"}, result=source)
    edit = Compactor("balanced").compact(ledger_talk(read, more=0)).edits[0]
    assert edit.why == f"first sight of {len(source)} characters of a file"
    head, *kept = edit.text.split("\n")
    assert "read the span you need to see more" in head
    assert 0.5 * len(source) < len("\n".join(kept)) < 0.9 * len(source)
    assert {line.split("| ", 1)[-1] for line in kept} <= set(source.split("\n")), "verbatim lines only"
    small = Call(name="Read", arguments={"file_path": "a.py"}, result=source[:14_000])
    assert not Compactor("balanced").compact(ledger_talk(small, more=0)).edits
