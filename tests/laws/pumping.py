"""Texts made to be slow: what a long result may hold, and texts pumped out of a regular expression's own source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from random import Random
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as sre  # type: ignore[attr-defined]
from typing import Any

ALPHABET = "aA0_ \t\n-./:,;=|\"'`\\<>()[]{}+*#~@%&\r\b\x1b中é"
"""Characters that repeat bodies are sampled from, where the expression allows them."""
_BODIES = 6
_TAILS = ("", "\n", "\0", " 中!")
_LONG = 40
"""Repetitions from which a repeat counts as unbounded."""


def pumped(pattern: re.Pattern[str]) -> Iterator[Callable[[int], str]]:
    """Yield, for every long repeat of an expression, functions that write a text of n characters which feeds it."""
    seen: set[tuple[str, str, str]] = set()
    for before, body in _repeats(sre.parse(pattern.pattern, pattern.flags), ""):
        if not body:
            continue
        for tail in _TAILS:
            for start, unit in ((before, body), ("", before + body)):
                if (start, unit, tail) not in seen:
                    seen.add((start, unit, tail))
                    yield _writer(start, unit, tail)


def _writer(start: str, unit: str, tail: str) -> Callable[[int], str]:
    def write(size: int) -> str:
        return start + unit * max((size - len(start) - len(tail)) // len(unit), 1) + tail

    write.__name__ = f"{start!r} + {unit!r} * n + {tail!r}"
    return write


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Yield (a text that leads there, a body) of every long repeat in a parsed expression."""
    for op, given in tree:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            _, most, inner = given
            if most > _LONG:
                for body in _samples(inner, _BODIES):
                    yield before, body
            yield from _repeats(inner, before)
        elif op is ops.BRANCH:
            for branch in given[1]:
                yield from _repeats(branch, before)
        elif op is ops.SUBPATTERN:
            yield from _repeats(given[-1], before)
        elif op is ops.ATOMIC_GROUP:
            yield from _repeats(given, before)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            yield from _repeats(given[1], before)
        before += next(_samples_of(op, given), "")


def _samples(tree: Any, most: int) -> list[str]:
    """Return a few different texts that a parsed expression takes, on the whole: assertions are not looked at."""
    found = [""]
    for op, given in tree:
        options = list(_samples_of(op, given))[:most] or [""]
        found = [text + option for option in options for text in found][:most]
    return list(dict.fromkeys(found))


def _samples_of(op: Any, given: Any) -> Iterator[str]:
    if op is ops.LITERAL:
        yield chr(given)
    elif op is ops.NOT_LITERAL:
        yield from (c for c in ALPHABET if c != chr(given))
    elif op is ops.ANY:
        yield from ALPHABET
    elif op is ops.IN:
        one = re.compile(_class_source(given))
        hits = [c for c in ALPHABET if one.match(c)]
        yield from hits or [chr(g if o is ops.LITERAL else g[0]) for o, g in given if o in (ops.LITERAL, ops.RANGE)][:1]
    elif op is ops.BRANCH:
        for branch in given[1]:
            yield from _samples(branch, 1)
    elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        least, _, inner = given
        yield from (text * max(least, 1) for text in _samples(inner, _BODIES))
        if least == 0:
            yield ""
    elif op is ops.SUBPATTERN:
        yield from _samples(given[-1], _BODIES)
    elif op is ops.ATOMIC_GROUP:
        yield from _samples(given, _BODIES)
    else:
        yield ""


_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d", ops.CATEGORY_NOT_DIGIT: r"\D", ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S", ops.CATEGORY_WORD: r"\w", ops.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _class_source(given: Any) -> str:
    """Write a character class of a parsed expression as source again."""
    parts = []
    for op, value in given:
        if op is ops.NEGATE:
            parts.append("^")
        elif op is ops.LITERAL:
            parts.append(f"\\U{value:08x}")
        elif op is ops.RANGE:
            parts.append(f"\\U{value[0]:08x}-\\U{value[1]:08x}")
        else:
            parts.append(_CATEGORIES[value])
    return f"[{''.join(parts)}]"


# ── what results and arguments hold ──────────────────────────────────────────────────────────────────────


def repeated(unit: str) -> Callable[[int], str]:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def numbered(form: str, joint: str = "\n") -> Callable[[int], str]:
    """Return a writer of many different short texts; `{}` in the form is their number."""

    def write(size: int) -> str:
        count = 2 * size // (len(form) + len(joint)) + 2
        return joint.join(form.replace("{}", str(number)) for number in range(count))[:size]

    return write


def letters(alphabet: str) -> Callable[[int], str]:
    return lambda size: "".join(Random(7).choices(alphabet, k=size))


TEXTS: dict[str, Callable[[int], str]] = {
    "minified code": repeated("var a=function(b,c){return b.d(c)||e[0]};"),
    "base64": letters("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
    "base64 of zeros": repeated("A"),
    "DNA and an error": lambda size: letters("ACGT")(size - 6) + " error",
    "letters and a conflict": lambda size: "compiled\n" + "a" * (size - 20) + " conflict\n",
    "names joined by commas": numbered("item7_{}", ","),
    "names joined by dots": numbered("item7_{}", "."),
    "names joined by slashes": numbered("item7_{}", "/"),
    "names joined by dashes": numbered("item7_{}", "-"),
    "paths": numbered("src/mod_{}/file_{}.py:{}: error here"),
    "characters taken back": lambda size: "a" * (size // 2) + "\b" * (size // 2),
    "every character taken back": repeated("a\b"),
    "a progress bar and a long line": lambda size: "Loading 50%\rLoading 100%\n" + "x" * (size - 30) + "\n",
    "carriage returns": repeated("word\r"),
    "escape sequences": repeated("\x1b]0;"),
    "blank lines": repeated("\n"),
    "short lines": repeated("1\n2\n"),
    "different lines": numbered("line {} value_{}"),
    "errors": numbered("ERROR {}: failed to open file_{}"),
    "rules": numbered("You must never use name_{}."),
    "rules of a program": lambda size: f"<system-reminder>{numbered('Never use name_{}.')(size - 40)}</system-reminder>",
    "open brackets": repeated("["),
    "open objects": repeated('{"a":'),
    "JSON keys": lambda size: json.dumps({f"key_{n}": n for n in range(size // 16)}),
    "JSON rows": lambda size: json.dumps([{"id": n, "name": f"n{n}"} for n in range(size // 26)]),
    "quotation marks": repeated('"'),
    "backticks": repeated("`"),
    "open fences": repeated("```\n"),
    "Chinese": repeated("核对回执编号失败后重试"),
    "spaces": repeated(" "),
    "marks of totals": repeated("= a passed "),
    "dashes": repeated("-"),
    "pipes": repeated("| "),
    "open reminders": repeated("<system-reminder>"),
    "hand-overs": repeated("[danshari hand-over 1 en 1: x]\n## Goal ·\n~ 1\na\n[danshari hand-over ends]\n"),
    "one long hand-over": lambda size: "[danshari hand-over 1 en 1: x]\n## Goal ·\n~ 1\n" + "a line\n" * (size // 7)
    + "[danshari hand-over ends]",
    "open web tokens": repeated("eyJ-"),
    "an open key": lambda size: "-----BEGIN PRIVATE KEY-----\n" + repeated("A" * 64 + "\n")(size),
    "claims": numbered("We decided to use option_{} instead of plan_{}. Cancelled the idea of option_{}."),
    "sentences": repeated("I found that it is done. "),
    "numbered code": numbered("{}\tdef func_{}(a, b):"),
    "jobs": numbered("running in the background task-{}"),
    "a diff": numbered("@@ -{},3 +{},3 @@\n-old {}\n+new {}"),
    "commands": repeated(";make a "),
    "flags": lambda size: "npm run" + repeated(" --a")(size),
}  # fmt: skip
"""Writers of texts of about n characters, by what they hold."""
