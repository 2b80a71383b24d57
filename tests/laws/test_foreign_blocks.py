"""What a provider puts into a conversation beside texts and tools: it stays, or leaves as a whole."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor
from danshari.core.policy import CompactedShape
from danshari.formats import find_format
from tests.support.every_view import cuts, judge
from tests.support.strategies import Setting, sessions, settings_of_runs

FIXED = {
    "anthropic": (
        {"type": "compaction", "content": "What came before.", "encrypted_content": "c2VhbGVk"},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "mcp_tool_listing", "server_name": "wiki", "tools": [{"name": "find"}]},
        {"type": "tool_addition", "tool": {"name": "deploy", "input_schema": {"type": "object"}}},
    ),
    "openai-responses": (
        {"type": "compaction", "encrypted_content": "c2VhbGVk"},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "deploy"}]},
        {"type": "configuration_update", "reasoning": {"effort": "high"}},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "wiki", "tools": []},
        {"type": "item_reference", "id": "msg_1"},
    ),
}
"""By format, what enables something or what only the provider can read."""


def run(setting: Setting, name: str, shape: CompactedShape = "state") -> Compactor:
    """Return a compactor as a setting wants it."""
    engine = Compactor(
        setting.policy,
        model=setting.model,
        window=setting.window,
        prices=setting.prices,
        format=name,
        clock=lambda: 0.0,
    )
    if shape == "seed":
        engine.policy = engine.policy.with_fields(handover_shape="seed")
    return engine


def with_blocks(session: tuple[str, list[Any]], blocks: list[tuple[int, Any]]) -> list[Any]:
    """Return the messages with each block put where a turn begins; blocks of Anthropic stand in the message there."""
    name, messages = session[0], copy.deepcopy(session[1])
    starts = [at for at in cuts(session) if at < len(messages)]
    for place, block in sorted(blocks, key=lambda pair: -(pair[0] % max(len(starts), 1))) if starts else ():
        at = starts[place % len(starts)]
        if name == "openai-responses":
            messages.insert(at, block)
        elif isinstance(messages[at]["content"], list):
            messages[at]["content"].insert(0, block)
    return messages


def fixed_blocks(name: str, messages: list[Any]) -> list[Any]:
    """List the blocks of `FIXED` that messages hold, in order."""
    if name == "openai-responses":
        return [m for m in messages if m in FIXED[name]]
    return [b for m in messages if isinstance(m["content"], list) for b in m["content"] if b in FIXED[name]]


@pytest.mark.parametrize("shape", ["state", "seed"])
@given(
    session=sessions(formats=tuple(FIXED)),
    setting=settings_of_runs,
    blocks=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4),
)
def test_what_enables_something_stays(
    shape: CompactedShape, session: tuple[str, list[Any]], setting: Setting, blocks: list[tuple[int, int]]
) -> None:
    name = session[0]
    table = FIXED[name]
    messages = with_blocks(session, [(place, table[kind % len(table)]) for place, kind in blocks])
    engine, wire, last = run(setting, name, shape), find_format(name), list[Any]()
    for number, at in enumerate(cuts((name, messages))):
        source = messages[:at]
        force: Any = "full" if number % 3 == 2 else setting.force and number % 3 == 1
        result = engine.compact(source, force=force)
        last = judge(engine, source, result, wire, last)
        assert fixed_blocks(name, last) == fixed_blocks(name, source)


def anthropic_program(steps: list[int], number: int) -> list[Any]:
    """Write a program of the server that calls client tools `steps` times, several at once, and ends."""
    program, out = f"srvtoolu_{number}", list[Any]()
    first: Any = {"type": "server_tool_use", "id": program, "name": "code_execution", "input": {"code": "run()"}}
    for step, calls in enumerate(steps):
        ids = [f"toolu_p{number}_{step}_{n}" for n in range(calls)]
        caller = {"type": "code_execution_20250825", "tool_id": program}
        made = [{"type": "tool_use", "id": i, "name": "query", "input": {"n": i}, "caller": caller} for i in ids]
        out.append({"role": "assistant", "content": [*([first] if step == 0 else []), *made]})
        rows = [{"type": "tool_result", "tool_use_id": i, "content": f"{i} row of sales\n" * 300} for i in ids]
        out.append({"role": "user", "content": rows})
    ended = {"type": "code_execution_result", "stdout": "total 7", "stderr": "", "return_code": 0, "content": []}
    end: Any = {"type": "code_execution_tool_result", "tool_use_id": program, "content": ended}
    out.append({"role": "assistant", "content": [end, {"type": "text", "text": "The total is 7."}]})
    return [*out, {"role": "user", "content": [{"type": "text", "text": "Thank you, go on."}]}]


def responses_program(steps: list[int], number: int) -> list[Any]:
    """Write the same program as items of the Responses API."""
    program = f"prog_{number}"
    out: list[Any] = [{"type": "program", "id": f"p_{number}", "call_id": program, "code": "run()", "fingerprint": "f"}]
    caller = {"type": "program", "caller_id": program}
    for step, calls in enumerate(steps):
        ids = [f"call_p{number}_{step}_{n}" for n in range(calls)]
        out += [
            {"type": "function_call", "call_id": i, "name": "query", "arguments": "{}", "caller": caller} for i in ids
        ]
        out += [
            {"type": "function_call_output", "call_id": i, "output": f"{i} row\n" * 600, "caller": caller} for i in ids
        ]
    out.append(
        {"type": "program_output", "id": f"o_{number}", "call_id": program, "result": "7", "status": "completed"}
    )
    return [*out, {"type": "message", "role": "user", "content": "Thank you, go on."}]


PROGRAMS = {"anthropic": anthropic_program, "openai-responses": responses_program}


def program_parts(name: str, messages: list[Any], number: int) -> list[Any]:
    """List what belongs to a program: its own items, its calls and their results."""
    blocks = (
        messages
        if name == "openai-responses"
        else [b for m in messages for b in (m["content"] if isinstance(m["content"], list) else ())]
    )
    marks = (f"srvtoolu_{number}", f"toolu_p{number}_", f"prog_{number}", f"call_p{number}_")
    ids = [str(b.get("tool_use_id") or b.get("call_id") or b.get("id") or "") for b in blocks]
    return [b for b, id_ in zip(blocks, ids, strict=True) if id_.startswith(marks)]


@given(
    session=sessions(formats=tuple(PROGRAMS)),
    setting=settings_of_runs,
    programs=st.lists(
        st.tuples(st.integers(0, 20), st.lists(st.integers(1, 3), min_size=1, max_size=3)), min_size=1, max_size=2
    ),
)
def test_a_program_keeps_its_results_or_leaves_whole(
    session: tuple[str, list[Any]], setting: Setting, programs: list[tuple[int, list[int]]]
) -> None:
    name, messages = session[0], list(session[1])
    for number, (place, steps) in enumerate(programs):
        starts = [at for at in cuts((name, messages)) if at == len(messages) or is_user(messages[at - 1])]
        at = starts[place % len(starts)] if starts else len(messages)
        messages[at:at] = PROGRAMS[name](steps, number)
    engine, wire, last = run(setting, name), find_format(name), list[Any]()
    for step, at in enumerate(cuts((name, messages))):
        source = messages[:at]
        result = engine.compact(source, force="full" if step % 3 == 2 else setting.force and step % 3 == 1)
        last = judge(engine, source, result, wire, last)
        for number in range(len(programs)):
            shown, given_ = (program_parts(name, m, number) for m in (last, source))
            assert shown in ([], given_)


def is_user(message: Any) -> bool:
    """Return whether a user's own message ends here, so that a program may follow."""
    content = message.get("content")
    return message.get("role") == "user" and not (
        isinstance(content, list) and any(b.get("type") == "tool_result" for b in content)
    )


@given(session=sessions(), setting=settings_of_runs, places=st.lists(st.integers(0, 20), min_size=1, max_size=3))
def test_an_old_call_without_a_result_holds_nothing_up(
    session: tuple[str, list[Any]], setting: Setting, places: list[int]
) -> None:
    name, whole = session
    broken = without_results(session, places)
    engines = [run(setting, name), run(setting, name)]
    views = [e.compact(m, force="full") for e, m in zip(engines, (whole, broken), strict=True)]
    assert all(view.ok for view in views)
    assert not [refusal for refusal in views[1].refused if refusal.law == "open call"]
    pays = not any("free" in note for note in views[1].notes)  # with fewer results less may leave than pays
    assert views[1].handover is not None or views[0].handover is None or not pays


def without_results(session: tuple[str, list[Any]], places: list[int]) -> list[Any]:
    """Return the messages without the results of some turns, the newest two aside, as interrupted runs leave them."""
    name, messages = session
    items = find_format(name).read(messages)
    old = sorted({i.turn for i in items if i.kind == "result" and i.turn < items[-1].turn - 1})
    dead = {old[place % len(old)] for place in places} if old else set()
    gone = {i.at[0] for i in items if i.kind == "result" and i.turn in dead}
    return [m for at, m in enumerate(messages) if at not in gone]
