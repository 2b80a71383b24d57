"""Generated conversations: whole sessions in every format, tame and odd, and policies to run them under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from danshari import formats
from danshari.core.pricing import Prices
from danshari.testing import Call, Turn, conversation

FORMATS = tuple(formats.FORMATS)


POLICIES = ("balanced", "literal", "repair", "architecture", "off")


_WORDS = (
    "parser",
    "ledger_total",
    "handleRequest",
    "错误处理",
    "résumé",
    "👩‍💻",
    "Queue",
    "retry_limit",
    "src/app/core.py",
)


SHAPES = ("code", "log", "listing", "prose", "json", "ansi", "progress", "one line", "repeats", "chinese", "ours")


def body(shape: str, size: int, salt: int) -> str:
    """Make a text of about `size` characters; the same arguments give the same text."""
    word = _WORDS[salt % len(_WORDS)]
    line = {
        "code": f"def {word}_{salt}(ledger, limit={salt}):\n    return ledger.total('{word}', limit)\n",
        "log": f"2026-03-0{salt % 9 + 1} INFO worker-{salt} {word} took {salt * 37}ms\n",
        "listing": f"src/{word}/module_{salt}.py\n",
        "prose": f"The {word} keeps {salt} entries and refuses the rest. ",
        "json": f'{{"id": {salt}, "name": "{word}", "state": "late"}}\n',
        "ansi": f"\x1b[31merror\x1b[0m {word} failed at step {salt}\n",
        "progress": f"10%\r{salt % 100}%\rdone {word}\n",
        "one line": f"{word}-{salt},",
        "repeats": f"waiting for {word}\n",
        "chinese": f"第{salt}步：核对{word}的回执编号，失败后重试。\n",
        "ours": '{"compacted":true,"tool":"x","originalLength":9,"message":"content compressed"}',
    }[shape]
    lines = []
    length = number = 0
    while length < size:
        text = line.replace(str(salt), str(salt + number % 13), 1) if shape not in ("repeats", "ours") else line
        lines.append(text)
        length += len(text)
        number += 1
        if shape == "ours":
            break
    return "".join(lines)


_SIZES = (0, 3, 150, 250, 900, 2600, 5000, 14000)


_PATHS = ("src/app.py", "src/ledger.py", "docs/设计.md", "tests/test_app.py")


_KINDS = ("read", "read", "bash", "bash", "grep", "edit", "write", "todo", "skill", "unknown")


_COMMANDS = ("pytest -q", "cat {}", "sed -n '1,80p' {}", "make")


_WORDS_SAID = ("", "", "", "", "Keep amounts in cents.", "请继续，不要改动接口。")


class Digits:
    """Takes one drawn integer apart into small choices: few draws keep generation fast."""

    def __init__(self, number: int) -> None:
        self.number = number

    def take(self, options: int) -> int:
        self.number, digit = divmod(self.number, options)
        return digit

    def one(self, options: tuple[Any, ...]) -> Any:
        return options[self.take(len(options))]

    def text(self) -> str:
        return body(self.one(SHAPES), self.one(_SIZES), self.take(7))


def _call(digits: Digits) -> Call:
    kind, path = digits.one(_KINDS), digits.one(_PATHS)
    result, failed = digits.text() or "ok", digits.take(8) == 7
    name, arguments = {
        "read": lambda: ("Read", {"file_path": path, "offset": digits.one((1, 1, 40))}),
        "bash": lambda: ("Bash", {"command": digits.one(_COMMANDS).format(path)}),
        "grep": lambda: ("Grep", {"pattern": "ledger_total"}),
        "edit": lambda: ("Edit", {"file_path": path, "old_string": digits.text()[:400], "new_string": digits.text()}),
        "write": lambda: ("Write", {"file_path": path, "content": digits.text()}),
        "todo": lambda: ("TodoWrite", {"todos": [{"content": digits.text()[:300], "status": "pending"}]}),
        "skill": lambda: ("Skill", {"name": "slides"}),
        "unknown": lambda: ("frobnicate", {"x": digits.text()}),
    }[kind]()
    return Call(name=name, arguments=arguments, result=result, failed=failed)


def _turn(number: int) -> Turn:
    digits = Digits(number)
    text = digits.one(("", "Looking.", "我来看看。"))
    thinking = digits.one(("", "", "The ledger may be off by one."))
    user = digits.one(_WORDS_SAID)
    return Turn(text=text, thinking=thinking, calls=tuple(_call(digits) for _ in range(digits.take(4))), user=user)


_turns = st.builds(_turn, st.integers(0, 2**120))


@dataclass(frozen=True)
class Setting:
    """One way to run a session."""

    policy: str
    window: int
    model: str
    prices: Prices
    force: bool


settings_of_runs = st.builds(
    Setting,
    st.sampled_from(POLICIES),
    st.sampled_from((3000, 9000, 40_000, 400_000)),
    st.sampled_from(("gpt-5", "claude-opus-4-5", "claude-opus-5-5")),
    st.sampled_from((Prices(), Prices(read=0.02, write=1.0), Prices(read=0.1, write=1.25, minimum=0))),
    st.sampled_from((False, False, False, True)),
)


@st.composite
def sessions(draw: Any, *, rounds: int = 9, formats: tuple[str, ...] = FORMATS) -> tuple[str, list[Any]]:
    """Draw (format name, messages) of one well-formed session that ends where a model call would follow."""
    name = draw(st.sampled_from(formats))
    turns = list(draw(st.lists(_turns, min_size=1, max_size=rounds)))
    system = "" if name == "anthropic" else draw(st.sampled_from(("", "You are a coding agent.")))
    last = turns[-1]
    if not last.calls and not last.user:
        turns[-1] = Turn(text=last.text, calls=last.calls, user="Go on.")
    messages = conversation(name, "Fix the off-by-one in ledger_total.", turns, system=system)
    if draw(st.booleans()):
        _random_ids(messages)
    if draw(st.integers(0, 3)) == 0:
        _stir(name, messages)
    return name, messages


def _stir(name: str, messages: list[Any]) -> None:
    """Put into rounds what clients put there: a system note before the results, a word of the user between outputs."""
    for at in range(len(messages) - 1, 0, -1):
        before, here = messages[at - 1], messages[at]
        if name == "anthropic" and here["content"][0]["type"] == "tool_result" and at % 2 == 0:
            messages.insert(at, {"role": "system", "content": "A note from the client."})
        elif (
            name == "openai-responses"
            and at % 3 == 0
            and {before.get("type"), here.get("type")} == {"function_call_output"}
        ):
            words = [{"type": "input_text", "text": "A word in between."}]
            messages.insert(at, {"type": "message", "role": "user", "content": words})


def _random_ids(messages: list[Any]) -> None:
    """Give the calls ids as a provider would."""
    names: dict[str, str] = {}

    def fresh(old: str) -> str:
        return names.setdefault(old, f"toolu_01{len(names):06d}AbCdEfGh9876")

    for message in messages:
        if "call_id" in message:
            message["call_id"] = fresh(message["call_id"])
        if "tool_call_id" in message:
            message["tool_call_id"] = fresh(message["tool_call_id"])
        for call in message.get("tool_calls", ()):
            call["id"] = fresh(call["id"])
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if block.get("type") == "tool_use":
                block["id"] = fresh(block["id"])
            if block.get("type") == "tool_result":
                block["tool_use_id"] = fresh(block["tool_use_id"])


_odd_values = st.sampled_from((None, 7, "text", [], [{"type": "?"}], {"a": 1}, "\ud83d half", "", [None], True))


@st.composite
def odd_messages(draw: Any) -> list[Any]:
    """Draw lists no provider would take: unknown roles, orphans, duplicates, half surrogates, wrong types."""
    _, messages = draw(sessions(rounds=4))
    messages = [dict(m) for m in messages]
    for _ in range(draw(st.integers(1, 4))):
        what = draw(st.sampled_from(("drop", "double", "role", "content", "junk", "key", "swap")))
        at = draw(st.integers(0, max(len(messages) - 1, 0)))
        if not messages:
            break
        if what == "drop":
            del messages[at]
        elif what == "double":
            messages.insert(at, messages[at])
        elif what == "junk":
            messages.insert(at, draw(_odd_values))
        elif what == "swap":
            messages[at], messages[-1] = messages[-1], messages[at]
        elif isinstance(messages[at], dict):
            key = {
                "role": "role",
                "content": "content",
                "key": draw(st.sampled_from(("tool_calls", "type", "output", "call_id"))),
            }
            messages[at] = {**messages[at], key[what]: draw(_odd_values)}
    return messages
