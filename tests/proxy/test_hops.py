"""Answers with recalls in them that are broken, refused, mixed or faulty."""

from __future__ import annotations

import json
from typing import Any

import pytest
from danshari_bench.load.traffic import serve_app

from danshari.proxy.app import create_app
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn
from danshari.testing.fake_provider import ScriptedFailure
from tests.support.proxy import PATHS, SSE, Client, body_of, make_pair, raw_upstream
from tests.support.recalls import RECALL, TOOL, Talk


@pytest.mark.parametrize("format_name", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_later_answer_that_fails_is_a_failure(format_name: str, stream: bool) -> None:
    """The client learns of it and asks anew; the hop is taken back, and no word of the client's is lost."""
    for pair in make_pair():
        talk = Talk(pair, format_name)
        talk.start()
        answers: list[Any] = [Turn(text="Let me look.", calls=(RECALL,)), ScriptedFailure(status=529, text="busy now")]
        pair.upstream.script = lambda asked, answers=answers: answers.pop(0) if answers else Turn(text="ok")
        body = body_of(format_name, talk.messages, tools=[TOOL[format_name]], stream=stream, store=False)
        status, _, said = pair.client.post(PATHS[format_name], body)
        assert b"busy now" in said
        assert status == (200 if stream else 529)
        assert b"message_stop" not in said
        assert b"response.completed" not in said
        talk.ask(Turn(text="IMPORTANT ANSWER"))
        assert "archived passages" not in json.dumps(talk.sent())


def test_a_broken_answer_makes_no_hop() -> None:
    events = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t",'
        b'"name":"recall_search","input":{}}}\n\n'
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    )
    with serve_app(raw_upstream([(SSE, events)])) as there:
        app = create_app(Settings(upstreams={"*": there}, archive=":memory:"))
        with serve_app(app) as here:
            body = body_of("anthropic", [{"role": "user", "content": "hi"}], tools=[TOOL["anthropic"]], stream=True)
            said = Client(here).post("/v1/messages", body)[2]
            assert said.endswith(b'"message":"busy"}}\n\n')
            assert b"recall" not in said
            assert app.state.sessions.all_branches()[0].recalls.hops == []


def test_a_call_in_the_last_chunk_is_hidden_too() -> None:
    """Some servers send the calls and the reason to stop in one chunk."""
    call = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "recall_search", "arguments": '{"query": "x"}'},
    }
    first = {
        "id": "a",
        "choices": [{"index": 0, "delta": {"content": "Wait.", "tool_calls": [call]}, "finish_reason": "tool_calls"}],
    }
    second = {"id": "b", "choices": [{"index": 0, "delta": {"content": " Done."}, "finish_reason": "stop"}]}
    answers = [(SSE, b"data: " + json.dumps(v).encode() + b"\n\ndata: [DONE]\n\n") for v in (first, second)]
    with serve_app(raw_upstream(answers)) as there:
        with serve_app(create_app(Settings(upstreams={"*": there}, archive=":memory:"))) as here:
            body = body_of("openai-chat", [{"role": "user", "content": "hi"}], tools=[TOOL["openai-chat"]], stream=True)
            said = Client(here).post(PATHS["openai-chat"], body)[2]
            assert b"recall" not in said
            assert b"Wait." in said
            assert said.index(b"Wait.") < said.index(b" Done.") < said.index(b"[DONE]")


def test_hidden_calls_stand_behind_their_reasoning() -> None:
    own = Call(name="Bash", arguments={"command": "make"}, id="own_1")
    for pair in make_pair():
        talk = Talk(pair, "openai-responses")
        talk.start()
        said = talk.ask(Turn(thinking="Both.", calls=(RECALL, own)))
        talk.messages = [
            *talk.messages,
            *said["output"],
            {"type": "function_call_output", "call_id": "own_1", "output": "ok"},
        ]
        talk.ask(Turn(text="Done."))
        kinds = [item.get("type") for item in talk.sent()][-5:]
        assert kinds == ["reasoning", "function_call", "function_call_output", "function_call", "function_call_output"]


def test_the_session_learns_from_the_last_request_alone() -> None:
    for pair in make_pair():
        talk = Talk(pair, "anthropic")
        talk.start()
        before = pair.app.state.sessions.all_branches()[0].compactor.session.calibration.reported
        talk.ask(*[Turn(calls=(RECALL,)) for _ in range(4)], Turn(text="Done."))
        after = pair.app.state.sessions.all_branches()[0].compactor.session.calibration.reported
        assert after < 3 * before + 20_000
        billed = pair.app.state.sessions.all_branches()[0].totals.billed
        assert billed["output"] >= 20 * 5


def test_a_refusal_after_a_hop_keeps_its_words() -> None:
    for pair in make_pair():
        for stream in (False, True):
            talk = Talk(pair, "anthropic")
            talk.start()
            answers: list[Any] = [
                Turn(calls=(RECALL,)),
                ScriptedFailure(status=400, text="your credit balance is too low"),
            ]
            pair.upstream.script = lambda asked, answers=answers: answers.pop(0) if answers else Turn(text="ok")
            body = body_of("anthropic", talk.messages, tools=[TOOL["anthropic"]], stream=stream)
            assert b"credit balance" in pair.client.post("/v1/messages", body)[2]


@pytest.mark.parametrize("broken", ["answer", "stream", "end", "closing"])
def test_a_fault_in_what_hides_recalls_costs_no_word(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def fault(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    where = {"answer": "danshari.proxy.recall.store.SessionRecalls.run_hop", "stream": "danshari.formats.anthropic.recall.AnthropicRecallFormat.stream_filter",
             "end": "danshari.formats.anthropic.recall.AnthropicStreamFilter.end_response",
             "closing": "danshari.formats.anthropic.recall.AnthropicStreamFilter.closing_events"}[broken]  # fmt: skip
    for pair in make_pair():
        talk = Talk(pair, "anthropic")
        talk.start()
        monkeypatch.setattr(where, fault)
        said = talk.ask(
            Turn(text="Let me look.", calls=(RECALL,)) if broken == "answer" else Turn(text="Look."), stream=True
        )
        assert b"ook." in said
        assert said.rstrip().endswith(b'"message_stop"}')
        assert pair.metric("faults_total", where="answer") >= 1


def test_hops_of_both_kinds_in_one_turn_stay_in_order() -> None:
    """First a recall alone, then one beside the client's own call: reasoning stands before its call, always."""
    own = Call(name="Bash", arguments={"command": "make"}, id="own_1")
    for pair in make_pair():
        talk = Talk(pair, "openai-responses")
        talk.start()
        said = talk.ask(Turn(thinking="First.", calls=(RECALL,)), Turn(thinking="Both.", calls=(RECALL, own)))
        talk.messages = [
            *talk.messages,
            *said["output"],
            {"type": "function_call_output", "call_id": "own_1", "output": "ok"},
        ]
        talk.ask(Turn(text="Done."))
        kinds = [item.get("type", "message") for item in talk.sent()][-8:]
        pair_ = ["function_call", "function_call_output"]
        assert kinds == ["reasoning", *pair_, "reasoning", *pair_, *pair_]


@pytest.mark.parametrize("format_name", PATHS)
def test_a_hop_is_not_glued_to_another_answer(format_name: str) -> None:
    own = Call(name="Bash", arguments={"command": "make"}, id="own_1")
    for pair in make_pair():
        talk = Talk(pair, format_name)
        talk.start()
        talk.ask(Turn(calls=(RECALL, own)))
        before = talk.messages
        talk.messages = [*before, *said_only(format_name, "Never mind."), talk.wire.user_message("Go on.")]
        talk.ask(Turn(text="Done."))
        assert "archived passages" not in json.dumps(talk.sent())


def said_only(format_name: str, text: str) -> list[Any]:
    if format_name == "openai-responses":
        return [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        ]
    return [{"role": "assistant", "content": text}]
