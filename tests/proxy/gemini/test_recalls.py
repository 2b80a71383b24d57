"""Recalls in the loop with Google's own client: answered here, hidden, and put back in the model's order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from danshari_bench.load.traffic import serve_app
from google.genai import errors, types

from danshari.proxy.app import create_app
from danshari.proxy.settings import Settings
from danshari.testing import Turn
from danshari.testing.fake_provider import ScriptedFailure
from tests.support.gemini import (
    BASH,
    BUILD,
    ask,
    client_of,
    declared,
    grown,
    parts_of,
    playing,
    sent,
    text_of,
)
from tests.support.proxy import SSE, make_pair, raw_upstream
from tests.support.recalls import RECALL

SAID = (Turn(thinking="Hm.", text="Let me look. ", calls=(RECALL,)), Turn(thinking="So.", text="It was module_3_7."))


@pytest.mark.parametrize("how", ["joined", "in pieces", "without thoughts"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_recall_is_answered_here_and_stands_in_every_later_request(stream: bool, how: str) -> None:
    for pair in make_pair():
        with client_of(pair.here) as client:
            contents = grown(client, pair)
            assert all(declared(a.body) == ["Bash", "recall_search", "recall_read"] for a in pair.upstream.requests)
            before = len(pair.upstream.requests)
            playing(pair, *SAID)
            answers = ask(client, contents, stream)
            assert len(pair.upstream.requests) == before + 2
            assert text_of(answers) == "Let me look. It was module_3_7."
            assert not any(p.function_call for p in parts_of(answers))
            assert answers[-1].usage_metadata.candidates_token_count == 40, "both answers' usage"
            during = sent(pair)
            assert "archived passages" in json.dumps(during)
            ask(client, [*contents, *stored(answers, how), {"role": "user", "parts": [{"text": "Go on."}]}], stream)
        after = sent(pair)
        assert after[: len(during)] == during, "the next request begins with what the model was sent"
        assert json.dumps(after).count("Let me look.") == 1
        assert json.dumps(after).count('"Hm."') == 1
        assert not pair.upstream.bills[""].problems
        assert pair.metric("recalls_total") == 1


def stored(answers: list[types.GenerateContentResponse], how: str) -> list[Any]:
    """An answer as a client stores it."""
    parts = [p for p in parts_of(answers) if not (how == "without thoughts" and p.thought)]
    if how == "in pieces":
        return [types.Content(role="model", parts=[part]) for part in parts]
    return [types.Content(role="model", parts=parts)]


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("order", [(RECALL, BUILD), (BUILD, RECALL)])
@pytest.mark.parametrize("stream", [False, True])
def test_beside_the_clients_own_call_a_recall_waits_for_its_result(stream: bool, order: Any, pieces: bool) -> None:
    """The first call of a turn carries its signature, so the calls go back in the model's order."""
    for pair in make_pair():
        with client_of(pair.here) as client:
            contents = grown(client, pair)
            before = len(pair.upstream.requests)
            playing(pair, Turn(text="Both.", calls=order))
            answers = ask(client, contents, stream)
            assert len(pair.upstream.requests) == before + 1
            assert [p.function_call.name for p in parts_of(answers) if p.function_call] == ["Bash"]
            result = types.Part.from_function_response(name="Bash", response={"output": "done"})
            told = [*stored(answers, "in pieces" if pieces else "joined"), types.Content(role="user", parts=[result])]
            ask(client, [*contents, *told], stream)
        turn = [p for c in sent(pair)[len(contents) :] if c["role"] == "model" for p in c["parts"]]
        calls = [p for p in turn if "functionCall" in p]
        assert [p["functionCall"]["name"] for p in calls] == [c.name for c in order]
        assert ["thoughtSignature" in p for p in calls] == [True, False]
        assert [p["functionResponse"]["name"] for p in sent(pair)[-1]["parts"]] == ["Bash", "recall_search"]
        assert "archived passages" in json.dumps(sent(pair)[-1])
        assert not pair.upstream.bills[""].problems


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_only_recalls_ends_with_an_answer_the_sdk_keeps(stream: bool) -> None:
    for pair in make_pair():
        with client_of(pair.here) as client:
            contents = grown(client, pair)
            playing(pair, *[Turn(calls=(RECALL,)) for _ in range(9)])
            answers = ask(client, contents, stream)
        assert answers[-1].candidates[0].finish_reason == types.FinishReason.STOP
        assert [p.text for p in parts_of(answers)] == [""]
        assert "No more recalls" in json.dumps(sent(pair))


def test_an_answer_that_is_cut_makes_no_hop() -> None:
    part = {"functionCall": {"name": "recall_search", "args": {"query": "x"}}}
    event = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "MAX_TOKENS"}]}
    with serve_app(raw_upstream([(SSE, b"data: " + json.dumps(event).encode() + b"\r\n\r\n")])) as there:
        app = create_app(Settings(upstreams={"*": there}, archive=":memory:"))
        with serve_app(app) as here, client_of(here) as client:
            answers = ask(client, "hi", stream=True)
            assert answers[-1].candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
            assert "recall" not in str(answers)
            assert app.state.sessions.all_branches()[0].recalls.hops == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_later_answer_that_fails_is_a_failure(stream: bool) -> None:
    for pair in make_pair():
        with client_of(pair.here) as client:
            contents = grown(client, pair)
            playing(pair, SAID[0], ScriptedFailure(status=503, text="busy now"))
            with pytest.raises(errors.APIError, match="busy now"):
                ask(client, contents, stream)
            ask(client, contents, stream)
        assert "archived passages" not in json.dumps(sent(pair))


def test_tools_join_those_declared_and_only_those() -> None:
    """One tool holds all declarations; beside the provider's own tools alone none are added."""
    search = types.Tool(google_search=types.GoogleSearch())
    for pair in make_pair():
        with client_of(pair.here) as client:
            ask(client, "hi", stream=False, tools=[BASH, search])
            assert declared(pair.upstream.requests[-1].body) == ["Bash", "recall_search", "recall_read"]
            assert len(pair.upstream.requests[-1].body["tools"]) == 2
            ask(client, "hello", stream=False, tools=[search])
            assert pair.upstream.requests[-1].body["tools"] == [{"googleSearch": {}}]
            ask(client, "good day", stream=False, candidate_count=2)
            assert declared(pair.upstream.requests[-1].body) == ["Bash"]
