"""The law of state: plans, skills, things alive, answers and deeds are told by their shape, whatever a tool is called."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from danshari import data, handover
from danshari.analysis.facts import Facts
from danshari.core.tokens import LITERAL_ESTIMATOR
from danshari.formats import find_format
from danshari.testing import Call, Turn, conversation

STATES = data.load_tools().states
GROUPS = {group: sorted(w for w, g in STATES.items() if g == group) for group in ("open", "active", "done")}
names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=4, max_size=12).map(lambda t: f"zz{t}")
keys = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=9)
THINGS = (
    "the settlement cron",
    "rounding in fees",
    "the leap day test",
    "statements of tenant 12",
    "the feature switch",
    "Übersetzung der Texte",
)
VERBS = ("Inspect", "Patch", "Write", "Regenerate", "Remove", "Tell finance about", "检查")
tasks = st.lists(
    st.builds(lambda verb, thing: f"{verb} {thing}", st.sampled_from(VERBS), st.sampled_from(THINGS)),
    min_size=3, max_size=7, unique=True,
)  # fmt: skip
styles = st.sampled_from([str, str.upper, str.title, lambda w: w.replace(" ", "_"), lambda w: w.replace(" ", "-")])


def run_of(*calls: Call) -> list[dict[str, Any]]:
    fill = [Call(name="bash", arguments={"command": f"make {n}"}, result=f"row {n} value\n" * 200) for n in range(3)]
    turns = [Turn(text="", calls=(call,)) for call in (*calls, *fill)]
    messages: list[dict[str, Any]] = conversation("openai-chat", "Go.", turns)
    return messages


def todo(messages: list[dict[str, Any]]) -> dict[str, str]:
    """Return text → state of the document's todo field."""
    found = {}
    for point in handover(messages, size=20_000)["todo"]:
        found.update(dict.fromkeys(point.text.split("\n"), point.label))
    return found


def facts_of(messages: list[dict[str, Any]]) -> Facts:
    facts = Facts(data.load_tools(), LITERAL_ESTIMATOR)
    facts.extend(find_format("openai-chat").read(messages))
    return facts


def word_of(group: str, pick: int, style: Any) -> str:
    words = GROUPS[group]
    return str(style(words[pick % len(words)]))


@given(names, keys, keys, keys, tasks, st.integers(0, 40), styles)
@settings(max_examples=60, deadline=None)
def test_rows_with_states_are_the_plan(
    tool: str, outer: str, text: str, state: str, steps: list[str], pick: int, style: Any
) -> None:
    """The newest list stands, with the newest states; an older list of the same entries is replaced."""
    text, state = f"{text}_t", f"{state}_s"

    def write(done: int) -> Call:
        rows = [
            {
                "nr": n,
                text: step,
                state: word_of("done" if n < done else "active" if n == done else "open", pick, style),
            }
            for n, step in enumerate(steps)
        ]
        return Call(name=tool, arguments={outer: rows, "explanation": "x" * 200}, result="ok")

    messages = run_of(write(0), write(1), write(2))
    assert todo(messages) == {
        step: word_of("done" if n < 2 else "active" if n == 2 else "open", pick, style) for n, step in enumerate(steps)
    }
    facts = facts_of(messages)
    assert [facts.acts[at].kind for at in facts.acts][:3] == ["plan"] * 3
    assert sorted(o.reason for o in facts.overtaken.values() if o.reason == "newer plan") == ["newer plan"] * 2


@given(names, keys, tasks, st.sampled_from(["- [{}] {}", "[{}] {}", "* [{}] {}", "{n}. [{}] {}"]))
@settings(max_examples=40, deadline=None)
def test_check_boxes_are_the_plan(tool: str, key: str, steps: list[str], line: str) -> None:
    """In a call of any tool, and in what the assistant says."""
    text = "\n".join(line.replace("{n}", str(n)).format("x" if n == 0 else " ", step) for n, step in enumerate(steps))
    expected = {step: "completed" if n == 0 else "pending" for n, step in enumerate(steps)}
    assert todo(run_of(Call(name=tool, arguments={key: text}, result="ok"))) == expected
    assert todo(run_of(Call(name="bash", arguments={"command": "ls", key: text}, result="ok"))) == expected
    said = conversation("openai-chat", "Go.", [Turn(text=f"My plan:\n{text}"), Turn(text="ok", user="yes")])
    assert todo(said) == expected


@given(
    names,
    names,
    keys,
    keys,
    keys,
    tasks,
    st.integers(0, 40),
    styles,
    st.sampled_from(["#{}", "item-{}a", "{}", "T{}00"]),
)
@settings(max_examples=60, deadline=None)
def test_one_entry_per_call_adds(
    make: str, change: str, title: str, ident: str, state: str, steps: list[str], pick: int, style: Any, number: str
) -> None:
    """Adding is not replacing: every entry stands, and a change of one changes that one."""
    title, ident, state, change = f"{title}_t", f"{ident}_i", f"{state}_s", f"{change}2"
    ids = [number.format(n + 1) for n in range(len(steps))]
    created = [
        Call(name=make, arguments={title: step, "note": "why it matters " * 20}, result=f"Created {name}: {step}")
        for name, step in zip(ids, steps, strict=True)
    ]
    word = word_of("done", pick, style)
    changed = Call(name=change, arguments={ident: ids[1].lstrip("#"), state: word}, result="ok")
    messages = run_of(*created, changed)
    found = todo(messages)
    assert found[steps[1]] == word
    assert all(step in found and found[step] != word for n, step in enumerate(steps) if n != 1)
    assert facts_of(messages).overtaken == {}


@given(names, names, tasks, st.integers(0, 40), styles, st.sampled_from(["{}", "step-{}", "t{}x"]))
@settings(max_examples=40, deadline=None)
def test_an_entry_of_a_list_is_changed_by_its_id(
    make: str, change: str, steps: list[str], pick: int, style: Any, number: str
) -> None:
    rows = [{"itemId": number.format(n + 1), "what": step, "how": "open"} for n, step in enumerate(steps)]
    word = word_of("active", pick, style)
    changed = Call(name=f"{change}2", arguments={"item_id": rows[1]["itemId"], "to": word}, result="ok")
    look = Call(name="zz_issues", arguments={"page": "1", "state": "closed"}, result="none")
    messages = run_of(Call(name=make, arguments={"rows": rows}, result="ok"), changed, look)
    assert todo(messages) == {step: word if n == 1 else "open" for n, step in enumerate(steps)}
    facts = facts_of(messages)
    assert [facts.acts[at].kind for at in facts.acts][:3] == ["plan", "plan", "other"]


@given(names, tasks, tasks)
@settings(max_examples=30, deadline=None)
def test_a_list_that_only_adds_replaces_nothing(tool: str, first: list[str], second: list[str]) -> None:
    more = [f"{step} again" for step in second]
    calls = [
        Call(name=tool, arguments={"rows": [{"what": s, "how": "open"} for s in part]}, result="ok")
        for part in (first, more)
    ]
    assert set(todo(run_of(*calls))) == {*first, *more}


GUIDE = (
    "{}# Release\n\nUse this for every deploy.\n\n1. Freeze the {} lane.\n2. Wait nine minutes.\n3. Thaw the lane.\n\n"
    + "Background.\n" * 40
)
ways = st.sampled_from([
    lambda tool, name: Call(name=tool, arguments={"x": name}), lambda tool, name: Call(name="Read", arguments={"file_path": f"/s/{name}/SKILL.md"}),
    lambda tool, name: Call(name="bash", arguments={"command": f"cat ~/.skills/{name}/SKILL.md"}),
    lambda tool, name: Call(name="bash", arguments={"command": f"pwd && head -n 99 .skills/{name}/SKILL.md; true"}),
])  # fmt: skip


@given(names, names, ways, st.sampled_from(["", "---\nname: release\ndescription: d\n---\n"]))
@settings(max_examples=40, deadline=None)
def test_a_guide_is_a_skill_however_it_is_loaded(tool: str, name: str, way: Any, front: str) -> None:
    """Its steps stand in the document; of two versions only the newer."""
    old, new = (Call(**{**vars_of(way(tool, name)), "result": GUIDE.format(front, lane)}) for lane in ("red", "blue"))
    messages = run_of(old, new)
    [skill] = handover(messages, size=20_000)["skills"]
    assert "1. Freeze the blue lane.\n2. Wait nine minutes.\n3. Thaw the lane." in skill.text
    facts = facts_of(messages)
    assert list(facts.overtaken) == [at for at, item in enumerate(facts.items) if "red lane" in item.text]


def vars_of(call: Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments}


idents = st.one_of(
    st.from_regex(r"[a-z]{3,8}-[0-9a-f]{4}", fullmatch=True).filter(lambda t: any(c.isdigit() for c in t.split("-")[1])),
    st.from_regex(r"[A-Z]{2}[0-9]{4}[A-Z]", fullmatch=True), st.uuids().map(str).filter(lambda t: not t[0:8].isdecimal()),
)  # fmt: skip
starts = st.sampled_from([
    '{{"{key}": "{id}", "state": "accepted"}}', '{{"ok": true, "{key}": "{id}", "status": "queued"}}', "Started job {id}.", "Agent {id} spawned.",
    "Approval required: {id} is waiting for approval.", "{id} is running in the background", "Submitted as {id}", '{{"{key}": "{id}", "status": "in_progress"}}',
])  # fmt: skip
ends = st.sampled_from(
    ["{id} finished.", '{{"id": "{id}", "status": "completed"}}', "{id} was approved", "killed {id}"]
)


@given(names, keys, st.lists(idents, min_size=2, max_size=4, unique=True), starts, ends)
@settings(max_examples=80, deadline=None)
def test_what_was_started_stays_until_it_ends(tool: str, key: str, made: list[str], start: str, end: str) -> None:
    calls = [
        Call(name=tool, arguments={"what": f"audit chapter {n}"}, result=start.format(key=key, id=name))
        for n, name in enumerate(made)
    ]
    over = Call(name="look", arguments={"x": 1}, result=end.format(id=made[0]))
    alive = [p.text for p in handover(run_of(*calls, over), size=20_000)["handles"]]
    assert [any(text.startswith(f"{name} ") for text in alive) for name in made] == [False] + [True] * (len(made) - 1)
    assert all(any(f"audit chapter {n}" in text for text in alive) for n in range(1, len(made)))


@given(names, st.lists(st.sampled_from(THINGS), min_size=3, max_size=6, unique=True))
@settings(max_examples=30, deadline=None)
def test_answers_findings_and_deeds_without_names_stand(tool: str, things: list[str]) -> None:
    page = "\n".join(f"2026-03-0{n % 9} INFO worker-{n} took {n * 7} ms req={n:08x}" for n in range(60))
    turns = []
    for thing in things:
        turns.append(Turn(text="", calls=(Call(name=tool, arguments={"about": thing, "mode": "x"}, result=page),)))
        turns.append(Turn(text=f"We found that {thing} was never looked at by anyone.", user="Next."))
    turns.append(Turn(text="", calls=(Call(name=f"{tool}_do", arguments={"region": "eu"}, result="eu is live"),)))
    text = json.dumps(handover(conversation("openai-chat", "Go.", turns), size=4_000).to_dict(), ensure_ascii=False)
    assert all(f"We found that {thing} was never looked at by anyone." in text for thing in things)
    assert "eu is live" in text


def test_helpers_findings_stand_beside_work_on_files() -> None:
    code = "\n".join(f"def function_{n}(value_{n}): return other_{n * 3}" for n in range(80))
    turns = [
        Turn(text="", calls=(Call(name="Read", arguments={"file_path": f"/r/m{n}.py"}, result=code),)) for n in range(8)
    ]
    for n in range(4):
        finding = f"The module number {n} is safe. Nothing in it writes to the disk."
        turns.insert(
            2 * n,
            Turn(
                text="",
                calls=(
                    Call(
                        name="Task", arguments={"prompt": f"Look at module {n}", "description": "look"}, result=finding
                    ),
                ),
            ),
        )
    text = json.dumps(handover(conversation("openai-chat", "Go.", turns), size=8_000).to_dict())
    assert all(f"The module number {n} is safe." in text for n in range(4))


def test_what_is_no_plan() -> None:
    """Rows of a result, questions with options, edits, and a filter by state are none."""
    issues = json.dumps([{"title": "A bug", "state": "open"}, {"title": "Another bug", "state": "closed"}])
    calls = [
        Call(name="zz_list", arguments={"state": "open", "owner": "me"}, result=issues),
        Call(name="zz_ask", arguments={"questions": [{"question": "Which one is it?", "multi": False, "options": [{"label": "a b c"}]}]}, result="a"),
        Call(name="zz_change", arguments={"edits": [{"old": "a = 1\nb = 2", "new": "a = 2\nb = 2", "all": False}]}, result="ok"),
        Call(name="Write", arguments={"file_path": "/r/readme.md", "content": "# Title\n\nText\nmore\nmore\nmore\n- [ ] one\n- [x] two\n"}, result="ok"),
    ]  # fmt: skip
    assert todo(run_of(*calls)) == {}
