"""Conversations of the Responses API with every input item of its SDK, and the rules they keep."""

from __future__ import annotations

import itertools
import json
from typing import Any

import typing_extensions as te

from danshari_bench.conversations.reflect import Maker, literal_of

LEFT_OUT = ("compaction_trigger", "item_reference")
"""A request's own control, and a pointer to an item on the server that no conversation here has."""
ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
    "program": "program_output",
    "mcp_approval_request": "mcp_approval_response",
}
KEYS = {"local_shell_call_output": "id", "mcp_approval_request": "id", "mcp_approval_response": "approval_request_id"}
"""The field that pairs call and result, where it is not `call_id`."""
CALL_OF = {answer: call for call, answer in ANSWERS.items()}


def item_types() -> dict[str, Any]:
    """Return the SDK's input items by their `type`, but for messages."""
    from openai.types.responses.response_input_item_param import ResponseInputItemParam

    found = {literal_of(kind): kind for kind in te.get_args(ResponseInputItemParam) if te.is_typeddict(kind)}
    return {name: kind for name, kind in found.items() if name not in ("", "message", *LEFT_OUT)}


def make_conversation(maker: Maker) -> list[list[dict[str, Any]]]:
    """Return what comes in before each model call."""
    kinds, rng = item_types(), maker.rng
    steps = [[_message(maker, "user")]]
    singles = [k for k in kinds if k not in ANSWERS and k not in CALL_OF and k != "reasoning"]
    for number in range(rng.randrange(4, 20)):
        step: list[dict[str, Any]] = []
        if rng.random() < 0.3:
            step.append(maker.fill(kinds["reasoning"], {"type": "reasoning", "id": f"rs_{number}"}))
        if rng.random() < 0.1:
            step += _program(maker, kinds, number)
        elif rng.random() < 0.35:
            name = rng.choice(singles)
            step.append(maker.fill(kinds[name], {"type": name}))
        else:
            step += _calls(maker, kinds, number)
        if rng.random() < 0.3:
            step += [_message(maker, "assistant"), _message(maker, "user")]
        for item in step:
            if rng.random() < 0.02:
                item["x_unknown"] = maker.text(f"{item.get('type', 'message')}.x_unknown")
        steps.append(step)
    return steps


def _message(maker: Maker, role: str) -> dict[str, Any]:
    return {"role": role, "content": maker.text("EasyInputMessageParam.content", maker.rng.choice((0, 0, 3)))}


def _calls(maker: Maker, kinds: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return one to three calls that were made at once, then their results."""
    rng = maker.rng
    calls, results = [], []
    for n in range(rng.choice((1, 1, 2, 3))):
        call = rng.choice(("function_call", *ANSWERS))
        answer, ref = ANSWERS[call], f"call_{number}_{n}"
        fixed: dict[str, Any] = {"type": call, KEYS.get(call, "call_id"): ref}
        if call == "function_call":
            path = maker.text("ResponseFunctionToolCallParam.arguments")
            fixed |= {"name": "read", "arguments": json.dumps({"path": path})}
        calls.append(maker.fill(kinds[call], fixed))
        result: dict[str, Any] = {"type": answer, KEYS.get(answer, "call_id"): ref}
        if (
            answer in ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
            and rng.random() < 0.7
        ):
            result["output"] = maker.text(f"{kinds[answer].__name__}.output", rng.choice((0, 5, 60, 120)))
        results.append(maker.fill(kinds[answer], result))
    return [_without_program(item) for item in calls + results]


def _without_program(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item without a caller that is a program: there is none here."""
    by_program = item.get("caller", {}).get("type") == "program"
    return {key: value for key, value in item.items() if key != "caller" or not by_program}


def _program(maker: Maker, kinds: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return a program, the calls that it makes with their results, and its output."""
    ref = f"prog_{number}"
    steps = [maker.fill(kinds["program"], {"type": "program", "call_id": ref})]
    for item in _calls(maker, kinds, number):
        callable_by_program = item["type"] not in ("program", "program_output") and "caller" in te.get_type_hints(
            kinds[item["type"]]
        )
        if callable_by_program:
            steps.append({**item, "caller": {"type": "program", "caller_id": ref}})
    return [*steps, maker.fill(kinds["program_output"], {"type": "program_output", "call_id": ref})]


def judge(given: list[dict[str, Any]], view: list[dict[str, Any]]) -> list[str]:
    """Return what the provider would refuse in `view`, sent in place of `given`."""
    return _judge_pairs(view) + _judge_programs(view) + _judge_reasoning(given, view)


def _judge_programs(view: list[dict[str, Any]]) -> list[str]:
    """A program's calls and their results stand between the program and its output."""
    faults: list[str] = []
    running: set[str] = set()
    for item in view:
        caller = item.get("caller") or {}
        if item.get("type") == "program":
            running.add(str(item.get("call_id")))
        elif item.get("type") == "program_output":
            running.discard(str(item.get("call_id")))
        elif caller.get("type") == "program" and caller.get("caller_id") not in running:
            faults.append(f"{item.get('type')} outside its program")
    return faults


def _judge_pairs(view: list[dict[str, Any]]) -> list[str]:
    faults: list[str] = []
    open_calls: dict[tuple[str, str], int] = {}
    for item in view:
        kind = str(item.get("type", ""))
        pair = (CALL_OF.get(kind, kind), str(item.get(KEYS.get(kind, "call_id"))))
        if kind in ANSWERS:
            open_calls[pair] = open_calls.get(pair, 0) + 1
        elif kind in CALL_OF:
            if not open_calls.get(pair):
                faults.append(f"{kind} without its call")
            else:
                open_calls[pair] -= 1
    return faults + [f"{kind} without its result" for (kind, _), left in open_calls.items() if left]


def _judge_reasoning(given: list[dict[str, Any]], view: list[dict[str, Any]]) -> list[str]:
    """Reasoning stands before the item it led to, and a call that it led to is not sent without it."""
    faults: list[str] = []
    names = [_name(item) for item in view]
    for item, after in itertools.pairwise(given):
        if item.get("type") != "reasoning":
            continue
        here, there = _name(item), _name(after)
        if here in names:
            at = names.index(here)
            if names[at + 1 : at + 2] != [there]:
                faults.append(f"reasoning not followed by its {after.get('type')}")
        elif after.get("id") and there in names and after.get("type") in ANSWERS:
            faults.append(f"{after.get('type')} without its reasoning")
    return faults


def _name(item: dict[str, Any]) -> tuple[str, ...]:
    kind = str(item.get("type", ""))
    return (kind, str(item.get(KEYS.get(kind, "call_id"))), str(item.get("id")))
