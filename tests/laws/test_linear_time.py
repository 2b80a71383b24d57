"""The law: reading a text takes time in proportion to its length, whatever stands in it.

Texts are generated from the expressions themselves (`pumping`) and from what results hold. A law about time compares
the same work at two sizes in the same process, the best of several runs, and leaves out what takes next to nothing.
`DANSHARI_LAWS=nightly` goes up to 4 MB.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import danshari
from danshari import Compactor, data
from danshari.analysis.identifiers import find_names
from danshari.analysis.lines import MOST_READ, mark_error_lines, mark_total_lines, select_telling_lines
from danshari.analysis.terminal import clean_terminal_output
from danshari.core.handover_markdown import parse_handover
from danshari.core.text import _LazyPattern
from danshari.formats import find_format
from danshari.handovers.claims import quotable_sentences
from danshari.handovers.language import detect_language
from danshari.handovers.user_words import spoken_text
from danshari.handovers.work import edit_line_range, outcome_lines
from danshari.pipeline.masking import mask_secrets
from danshari.shorten.text_kind import text_shape
from danshari.testing import Call, Turn, conversation
from tests.laws.pumping import TEXTS, pumped
from tests.support.strategies import FORMATS, POLICIES

SRC = Path(danshari.__file__).parent
LONG = os.environ.get("DANSHARI_LAWS") == "nightly"
SIZE = 1_000_000 if LONG else 30_000
"""Characters of the smaller of two texts; the larger is four times as long."""
GROWTH = 2.5
"""Times that work may take for twice the text."""
SEARCHES = ("search", "findall", "finditer", "sub", "subn", "split")
MATCHED = {"_HIT", "_ENTRY", "_TABLE", "_MARKUP"}
"""Expressions that are handed to a function which matches them at the start of lines."""


def best(work: Callable[[], object], runs: int = 3) -> float:
    """Return the processor seconds of the quickest of some runs."""
    found = []
    for _ in range(runs):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


@cache
def allowance() -> float:
    """Return the seconds per character that any work may take: many times those of a plain reading, here and now."""
    text = TEXTS["paths"](100_000)
    return 25 * best(lambda: find_names(text), 5) / len(text)


def assert_linear(work: Callable[[str], object], write: Callable[[int], str], size: int, what: str) -> None:
    """Compare a text with one four times as long, unless that one takes no time worth a look."""
    large = write(4 * size)
    begun = time.process_time()
    work(large)
    if time.process_time() - begun < 4 * size * allowance():
        return
    small = write(size)
    few, many = best(lambda: work(small)), best(lambda: work(large))
    most = GROWTH**2 * max(few, size * allowance())
    assert many <= most, f"{what}: {few:.3f} s for {size:,} characters, {many:.3f} s for four times as many"


# ── expressions ──────────────────────────────────────────────────────────────────────────────────────────


@cache
def expressions() -> dict[str, re.Pattern[str]]:
    """Return every expression of the package, by name: those of modules and those of the data tables."""
    found: dict[str, re.Pattern[str]] = {}
    for module in pkgutil.walk_packages(danshari.__path__, "danshari."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, _LazyPattern | re.Pattern):
                found[f"{module.name.removeprefix('danshari.')}.{name}"] = value
    markers = data.load_markers()
    found |= {f"markers.{n}": v for n, v in vars_of(markers).items() if isinstance(v, re.Pattern)}
    found |= {f"cue.{name}": value for name, value in markers.cues.items()}
    for runner in markers.runners:
        found |= {f"runner.{runner.name}.{n}": v for n, v in vars_of(runner).items() if isinstance(v, re.Pattern)}
    found |= {f"secret.{name}": value for name, value in data.load_secrets()}
    return {name: re.compile(p.pattern, p.flags) for name, p in found.items() if isinstance(p.pattern, str)}


def vars_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


@cache
def searched_names() -> frozenset[str]:
    """Return the names, with their modules, of expressions that are searched for somewhere."""
    found = set()
    for path in SRC.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        home = ".".join(path.relative_to(SRC).with_suffix("").parts)
        homes = {a.name: (node.module or "").removeprefix("danshari.")
                 for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}  # fmt: skip
        used = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in SEARCHES and isinstance(node.value, ast.Name):
                used.add(node.value.id)
            elif isinstance(node, ast.Call):
                used.update(argument.id for argument in node.args if isinstance(argument, ast.Name))
        found |= {f"{homes.get(name, home)}.{name}" for name in used - MATCHED}
    return frozenset(found)


def is_searched(name: str) -> bool:
    """Return whether an expression is looked for in the middle of texts; else it is matched at their start only."""
    if name.endswith(".command") or name.split(".")[0] in ("markers", "cue", "secret"):
        return True
    if name.startswith("runner."):
        return False
    return name in searched_names()


@pytest.mark.parametrize("name", sorted(expressions()))
def test_expressions(name: str) -> None:
    pattern = expressions()[name]
    searched = is_searched(name)

    def read(text: str) -> object:
        return sum(1 for _ in pattern.finditer(text)) if searched else pattern.match(text)

    for write in pumped(pattern):
        if searched or "\n" not in write(100):
            assert_linear(read, write, 2_000, f"{name} on {write.__name__}")


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────


def functions() -> dict[str, Callable[[str], object]]:
    """Return what reads a whole text, by name."""
    markers, phrases = data.load_markers(), data.load_phrases()
    told = [runner for runner in markers.runners if runner.name == "pytest"]
    return {
        "clean_terminal_output": clean_terminal_output,
        "mark_error_lines": lambda text: mark_error_lines(text.split("\n")),
        "mark_total_lines": lambda text: mark_total_lines(text.split("\n")),
        "select_telling_lines": lambda text: select_telling_lines(text.split("\n"), 2_000, ()),
        "find_names": lambda text: find_names(text, quoted=True),
        "text_shape": lambda text: text_shape(text.split("\n"), "run"),
        "quotable_sentences": lambda text: list(quotable_sentences(text)),
        "human_text": markers.human_text,
        "spoken_text": lambda text: spoken_text(
            find_format("openai-chat").read([{"role": "user", "content": text}])[0], markers
        ),
        "client_rules": lambda text: list(markers.client_rules(text)),
        "parse_handover": lambda text: parse_handover(text, phrases),
        "outcome_lines": lambda text: [outcome_lines(row, text, good=good) for row in told for good in (True, False)],
        "find_runner": markers.find_runner,
        "detect_language": lambda text: detect_language([text], phrases.values()),
        "mask_secrets": mask_secrets,
        "edit_line_range": edit_line_range,
    }


@pytest.mark.parametrize("name", sorted(functions()))
def test_functions(name: str) -> None:
    for kind, write in TEXTS.items():
        assert_linear(functions()[name], write, SIZE, f"{name} on {kind}")


# ── whole conversations ──────────────────────────────────────────────────────────────────────────────────


def as_output(text: str) -> Turn:
    return Turn(text="I look.", calls=(Call(name="bash", arguments={"command": "make test"}, result=text),))


PLACES: dict[str, Callable[[str], Turn]] = {
    "output": as_output,
    "file": lambda text: Turn(calls=(Call(name="read_file", arguments={"path": "/a/b.py"}, result=text),)),
    "command": lambda text: Turn(calls=(Call(name="bash", arguments={"command": text}),)),
    "answer": lambda text: Turn(text=text, calls=(Call(name="bash", arguments={"command": "ls"}),)),
    "words": lambda text: Turn(text="Done.", user=text),
}
"""Where a text may stand in a conversation."""


def compacted(text: str, place: str, form: str, policy: str, force: Any) -> None:
    later = [Turn(calls=(Call(name="bash", arguments={"command": f"ls {n}"}),)) for n in range(3)]
    messages = conversation(form, "Fix the parser.", [PLACES[place](text), *later, Turn(text="Done.")])
    result = Compactor(policy, model="gpt-5", window=30_000, format=form).compact(messages, force=force)
    assert not result.fault


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("force", [None, "full"])
def test_conversations(place: str, force: Any) -> None:
    """Every text, in turn under every policy and in every format."""
    ways = [(form, policy) for form in FORMATS for policy in POLICIES]
    for number, (kind, write) in enumerate(TEXTS.items()):
        form, policy = ways[(number + len(place)) % len(ways)]
        assert_linear(
                lambda text, form=form, policy=policy: compacted(text, place, form, policy, force),  # type: ignore[misc]
                write, SIZE, f"compact({policy}, force={force}) on {kind} as {place} in {form}",
            )  # fmt: skip


def test_a_text_too_long_to_read_whole_is_said() -> None:
    """Beyond a stated length only the two ends are read; both are there, and a note says so."""
    text = (
        "first_line_of_all = 1\n" + "filler of no interest\n" * (2 * MOST_READ // 22) + "ERROR: last_line_of_all failed"
    )
    messages = conversation("openai-chat", "Fix the parser.", [as_output(text)])
    result = Compactor("balanced", model="gpt-5", window=30_000).compact(messages)
    shown = str(result.messages)
    assert "first_line_of_all" in shown and "last_line_of_all" in shown and len(shown) < 30_000
    assert any("only the two ends are read" in note for note in result.notes)


ROUNDS: dict[str, Callable[[int], Turn]] = {
    "tests that fail and pass": lambda n: Turn(text=f"I found that item_{n} is done.", calls=(
        Call(name="bash", arguments={"command": f"pytest tests/test_{n}.py"}, result=f"{n % 2} failed, 3 passed"),)),
    "files written": lambda n: Turn(calls=(Call(name="write_file", arguments={"path": f"/a/{n}.py", "content": "x"}),)),
    "jobs started": lambda n: Turn(calls=(
        Call(name="bash", arguments={"command": f"serve {n} &"}, result=f"running in the background task-{n}"),)),
    "rules": lambda n: Turn(text="ok", user=f"Never use name_{n}. <system-reminder>Always check {n}.</system-reminder>"),
    "claims": lambda n: Turn(text=f"We decided to use option_{n} instead of plan_{n}. Cancelled the idea of plan_{n}."),
    "plans": lambda n: Turn(calls=(Call(name="todo_write", arguments={"todos": [{"content": f"s{n}", "status": "x"}]}),)),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROUNDS)
def test_rounds(kind: str) -> None:
    """Four times as many rounds take four times as long, more or less."""

    def work(count: int) -> Callable[[], object]:
        turns = [ROUNDS[kind](number) for number in range(count)]
        messages = conversation("openai-chat", "Fix the parser.", [*turns, Turn(text="Done.")])
        return lambda: Compactor("balanced", model="gpt-5", window=30_000).compact(messages, force="full")

    few, many = best(work(400), 2), best(work(1_600), 2)
    assert many <= GROWTH**2 * max(few, 0.05), f"{kind}: {few:.3f} s for 400 rounds, {many:.3f} s for 1,600"
