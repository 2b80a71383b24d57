"""Output of terminals, cleaned of what only a terminal shows."""

from __future__ import annotations

from danshari.analysis.terminal import clean_terminal_output


def test_admission_cleans_terminals() -> None:
    assert clean_terminal_output("\x1b[31mred\x1b[0m") == "red"
    assert clean_terminal_output("10%\r50%\rdone\nnext") == "done\nnext"
    assert clean_terminal_output("a\r\nb") == "a\nb"
    assert clean_terminal_output("x\bab\b\bcd") == "cd"
    assert clean_terminal_output("wait\n" * 9 + "go") == "wait\n[danshari: the line above stood 9 times in a row]\ngo"
    assert clean_terminal_output("plain\ntext") == "plain\ntext"
