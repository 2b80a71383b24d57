"""Interleavings of runs that begin alike: every request finds the branch of its own run, and runs share nothing."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danshari.archive.base import Filters
from danshari.archive.sqlite import SqliteArchive
from danshari.core.recall_tools import SEARCH_TOOL
from danshari.formats import find_format
from danshari.proxy.body.body import RequestBody, read_request_body
from danshari.proxy.sessions.registry import SessionRegistry
from danshari.proxy.sessions.session import ClientIdentity, OutgoingRequest, ProxySession
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn, conversation
from tests.support.proxy import PATHS, body_of

WORDS = ("Fix the tests.", "Fix the tests.\nThen say what failed.")
REMINDER = "<system-reminder>\nToday is 2026-03-{day:02}.\n</system-reminder>"


@dataclass
class Run:
    """One agent at work: what it sends next, and what came of it."""

    name: str
    messages: list[Any]
    cuts: list[int]
    key: str = ""
    day: int = 1
    reminder: str = "none"
    """Where a reminder stands: in no message, the first, or the newest."""
    at: int = 0
    changed: bool = False
    branches: list[str] = field(default_factory=list)
    requests: list[list[Any]] = field(default_factory=list)
    sent: list[list[Any]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Runs whose results it was shown, or could find in its archive."""


def make_run(name: str, format_name: str, seed: list[int], key: str) -> Run:
    """A run whose results are its own from round `seed[1]` on; calls are numbered alike in all runs."""
    first, own_from, rounds = seed[0] % 2, seed[1] % 3, 4 + seed[2] % 4
    turns = [
        Turn(text="Looking.", calls=(Call(name="Bash", arguments={"command": f"make {n}"}, id=f"c{n}", result="\n".join(
            f"[{n}.{k}] built part {k} {f'by_{name}_{n}_{k}' if n >= own_from else ''}" for k in range(120))),))
        for n in range(rounds)
    ]  # fmt: skip
    messages = conversation(format_name, WORDS[first], turns)
    wire = find_format(format_name)
    cuts = [n for n in range(1, len(messages)) if wire.begins_turn(messages[n], messages[n - 1])]
    return Run(name, messages, [*cuts, len(messages)], key=key)


def remind(run: Run, format_name: str, messages: list[Any]) -> list[Any]:
    """The messages with the run's reminder where it stands now."""
    if run.reminder == "none" or format_name == "gemini":
        return messages
    text = REMINDER.format(day=run.day)
    part = {"type": "input_text" if format_name == "openai-responses" else "text", "text": text}
    places = [n for n, m in enumerate(messages) if m.get("role") == "user" and m.get("type") in (None, "message")]
    at = places[0] if run.reminder == "first" else places[-1]
    message = messages[at]
    content = message["content"]
    given = [{**part, "text": content}] if isinstance(content, str) else list(content)
    whole = [part, *given] if run.reminder == "first" else [*given, part]
    return [*messages[:at], {**message, "content": whole}, *messages[at + 1 :]]


class Bed:
    """A registry that requests are put through, and what was found."""

    def __init__(self, format_name: str) -> None:
        self.wire, self.archive = find_format(format_name), SqliteArchive(":memory:")
        self.settings = Settings(sessions=50, recall="on", archive=":memory:")
        self.registry = SessionRegistry(self.settings, self.archive)

    def restart(self) -> None:
        """Forget all but the archive."""
        self.registry = SessionRegistry(self.settings, self.archive)

    def put(self, messages: list[Any], key: str, tenant: str = "t") -> tuple[ProxySession, list[Any]]:
        raw = json.dumps(body_of(self.wire.name, messages)).encode()
        body = read_request_body(raw, self.wire, self.registry.find_similar_body(raw))
        assert isinstance(body, RequestBody), body
        client = ClientIdentity(
            wire=self.wire, model="gpt-5", tenant=tenant, key=key, agent=None, window=None, url="/v1"
        )
        session = asyncio.run(self.registry.find(client, body))
        outgoing = OutgoingRequest(data=raw, session=session, body=body)
        session.compact(outgoing, {}, self.settings)
        assert not outgoing.fault, outgoing.fault
        return session, json.loads(outgoing.data)[self.wire.key]


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from((*("go",) * 9, "first", "newest", "none", "day", "restart"))),
    min_size=16,
    max_size=40,
)
SEEDS = st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=3, max_size=3)
FORMATS = [*PATHS, "gemini"]


def play(format_name: str, seeds: list[list[int]], steps: list[tuple[int, str]], keys: list[str]) -> list[Run]:
    """Let three runs go on in turns."""
    bed = Bed(format_name)
    runs = [make_run(name, format_name, seed, key) for name, seed, key in zip("ABC", seeds, keys, strict=True)]
    for number, what in steps:
        run = runs[number]
        if what in ("first", "newest", "none"):
            run.changed, run.reminder = run.changed or what != run.reminder, what
        elif what == "day":
            run.changed, run.day = run.changed or run.reminder != "none", run.day + 1
        elif what == "restart":
            bed.restart()
        elif run.at < len(run.cuts):
            messages = remind(run, format_name, copy.deepcopy(run.messages[: run.cuts[run.at]]))
            session, sent = bed.put(messages, run.key)
            run.at += 1
            run.branches.append(session.name)
            run.requests.append(messages)
            run.sent.append(sent)
            passages = bed.archive.search("built part 7", limit=20, filters=Filters(session=session.name))
            found = "".join(passage.entry.text for passage in passages)
            shown = json.dumps(sent) + found
            run.foreign += [other.name for other in runs if other is not run and f"by_{other.name}_" in shown]
    return runs


def same_content(one: Run, other: Run, at: int) -> bool:
    """Whether two runs hold the same content up to request `at`, reminders aside."""
    return one.messages[: one.cuts[at]] == other.messages[: other.cuts[at]]


def check_assignment(runs: list[Run]) -> None:
    """A branch holds the requests of one run, and those of another only as far as nothing tells them apart."""
    for run, other in permutations(runs, 2):
        mixed = [
            (at, n)
            for at, branch in enumerate(run.branches)
            for n, name in enumerate(other.branches)
            if name == branch and not (run.key == other.key and same_content(run, other, min(at, n)))
        ]
        assert not run.foreign
        assert not mixed, f"requests of {run.name} and {other.name} in one branch: {mixed}"


def check_nothing_returns(runs: list[Run]) -> None:
    """What was taken out of a run's view once stays out, if the run only appended."""
    for run in runs:
        steps = zip(run.requests, run.sent, run.sent[1:], strict=False)
        returned = [(as_texts(asked) - as_texts(before)) & as_texts(after) for asked, before, after in steps]
        assert run.changed or not any(returned), run.name


def as_texts(messages: list[Any]) -> set[str]:
    return {json.dumps(message) for message in messages}


@settings(parent=settings(), max_examples=max(settings().max_examples // 2, 1))
@given(seeds=SEEDS, steps=STEPS, keys=st.lists(st.sampled_from(("", "", "k1", "k2")), min_size=3, max_size=3))
@pytest.mark.parametrize("format_name", FORMATS)
def test_every_request_finds_the_branch_of_its_run(
    format_name: str, seeds: list[list[int]], steps: list[tuple[int, str]], keys: list[str]
) -> None:
    """Whoever else begins alike, whatever reminders do, and after a restart; nothing archived is another run's."""
    runs = play(format_name, seeds, steps, keys)
    check_assignment(runs)
    check_nothing_returns(runs)


def grown(rounds: int, first: list[str], *, who: str = "x") -> list[dict[str, Any]]:
    """An Anthropic conversation whose first message holds these texts."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": text} for text in first]}]
    for n in range(rounds):
        result = "\n".join(f"[{n}.{k}] built part {k} of {who}" for k in range(120))
        messages += [
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": f"toolu_{who}01ABC{n:06}", "name": "Bash", "input": {"command": f"make {n}"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"toolu_{who}01ABC{n:06}", "content": result}]},
        ]  # fmt: skip
    return messages


TASK = "Find which worker drops the last batch."
SKILLS = "<system-reminder>\nSkills: release, parity.\n</system-reminder>"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([REMINDER.format(day=1), TASK], [REMINDER.format(day=2), TASK]),
        ([SKILLS, REMINDER.format(day=1), TASK], [TASK]),
        ([TASK], [SKILLS, TASK]),
        ([f"Today is 2026-03-01. {TASK}"], [f"Today is 2026-03-02. {TASK}"]),
        ([f"It is Monday, March 2, 2026, 10:04.\n{TASK}"], [f"It is Tuesday, March 3, 2026, 9:15.\n{TASK}"]),
    ],
)
@pytest.mark.parametrize("key", ["", "mine"])
def test_what_stands_around_the_task_may_change(before: list[str], after: list[str], key: str) -> None:
    bed = Bed("anthropic")
    for rounds in range(8):
        session, sent = bed.put(grown(rounds, before), key)
    again, now = bed.put(grown(8, after), key)
    assert again is session
    bed.restart()
    found, later = bed.put(grown(9, after), key)
    assert found.name == session.name
    for n in range(2, len(sent)):
        assert now[n] == sent[n] == later[n]


def test_a_resumed_session_under_another_key_takes_over_what_was_decided() -> None:
    bed = Bed("anthropic")
    for rounds in range(8):
        session, sent = bed.put(grown(rounds, [TASK]), "one")
    for step in (bed.restart, lambda: None):
        other, now = bed.put(grown(8, [SKILLS, TASK]), "two")
        assert other.name != session.name
        assert now[1 : len(sent)] == sent[1:]
        stranger, whole = bed.put(grown(8, [SKILLS, TASK]), "two", tenant="another")
        assert stranger.name not in (session.name, other.name)
        assert not stranger.compactor.session.ledger or whole[1 : len(sent)] != sent[1:]
        step()


def test_a_client_that_cuts_its_beginning_off_keeps_its_named_session() -> None:
    bed, whole = Bed("anthropic"), grown(12, [TASK])
    names = [bed.put([whole[0], *whole[2 * cut + 1 : 2 * cut + 13]], "mine")[0].name for cut in range(5)]
    assert len(set(names)) == 1


def test_requests_without_a_credential_share_nothing() -> None:
    bed = Bed("anthropic")
    for who in ("a", "b"):
        for rounds in range(6):
            session, _ = bed.put(grown(rounds, [TASK], who=who), "", tenant="")
    said = session.compactor.run_recall(SEARCH_TOOL, {"query": "built part 7", "everywhere": True})
    assert "part 7 of b" in said
    assert "of a" not in said
