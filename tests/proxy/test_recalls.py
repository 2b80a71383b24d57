"""Recalls in the loop: the model asks, the proxy answers, the client never sees it, and the next request holds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from danshari.formats import find_format
from danshari.testing import Call, Turn
from tests.support.proxy import PATHS, body_of, make_pair, work
from tests.support.recalls import RECALL, TOOL, Talk, asked_tools


@pytest.mark.parametrize("format_name", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_recall_is_answered_here_and_stands_in_every_later_request(format_name: str, stream: bool) -> None:
    for pair in make_pair():
        talk = Talk(pair, format_name)
        talk.start()
        assert all(asked_tools(a) == ["Bash", "recall_search", "recall_read"] for a in pair.upstream.requests)
        before = len(pair.upstream.requests)
        said = talk.ask(Turn(text="Let me look.", calls=(RECALL,)), Turn(text="It was module_3_7."), stream=stream)
        assert len(pair.upstream.requests) == before + 2
        shown = said.decode() if stream else json.dumps(said)
        assert "recall" not in shown
        assert "It was mod" in shown
        hop = json.dumps(talk.sent())
        assert "module_3_7" in hop
        assert "archived passages" in hop
        during = talk.sent()
        talk.messages = [
            *talk.messages,
            *answer_of(format_name, "Let me look.It was module_3_7."),
            talk.wire.user_message("Go on."),
        ]
        talk.ask(Turn(text="Done."))
        after = talk.sent()
        assert after[: len(during)] == during, "the next request begins with what the model was sent"
        assert not find_format(format_name).check(after)
        assert not pair.upstream.bills[""].problems
        assert pair.metric("recalls_total") == 1


def answer_of(format_name: str, text: str) -> list[Any]:
    if format_name == "anthropic":
        parts = text.split(".It", 1)
        blocks = [parts[0] + ".", "It" + parts[1]]
        return [{"role": "assistant", "content": [{"type": "text", "text": t} for t in blocks]}]
    if format_name == "openai-chat":
        return [{"role": "assistant", "content": text}]
    first, second = text.split(".It", 1)
    return [
        {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": t, "annotations": []}]}
        for n, t in enumerate((first + ".", "It" + second))
    ]  # fmt: skip


@pytest.mark.parametrize("format_name", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_beside_the_clients_own_call_a_recall_waits_for_its_result(format_name: str, stream: bool) -> None:
    own = Call(name="Bash", arguments={"command": "make part_9"}, id="own_1")
    for pair in make_pair():
        talk = Talk(pair, format_name)
        talk.start()
        before = len(pair.upstream.requests)
        said = talk.ask(Turn(calls=(RECALL, own)), stream=stream)
        assert len(pair.upstream.requests) == before + 1
        shown = said.decode() if stream else json.dumps(said)
        assert "recall" not in shown
        assert "own_1" in shown
        talk.messages = [
            *talk.messages,
            *called(format_name),
        ]
        talk.ask(Turn(text="Done."))
        sent = talk.sent()
        assert not find_format(format_name).check(sent)
        assert "archived passages" in json.dumps(sent)
        assert not pair.upstream.bills[""].problems


def called(format_name: str) -> list[Any]:
    arguments = json.dumps({"command": "make part_9"})
    if format_name == "anthropic":
        return [{"role": "assistant", "content": [{"type": "tool_use", "id": "own_1", "name": "Bash", "input": {"command": "make part_9"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "own_1", "content": "done"}]}]  # fmt: skip
    if format_name == "openai-chat":
        call = {"id": "own_1", "type": "function", "function": {"name": "Bash", "arguments": arguments}}
        return [{"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "own_1", "content": "done"}]  # fmt: skip
    return [{"type": "function_call", "call_id": "own_1", "name": "Bash", "arguments": arguments},
            {"type": "function_call_output", "call_id": "own_1", "output": "done"}]  # fmt: skip


SDK_ANSWERS = (
    Turn(thinking="Hm.", text="Let me look.", calls=(RECALL,)),
    Turn(thinking="So.", text="It was module_3_7."),
)


@pytest.mark.parametrize("stream", [False, True])
def test_the_official_sdks_read_what_is_left(stream: bool) -> None:
    for pair in make_pair():
        queue: list[Turn] = []
        pair.upstream.script = lambda asked, queue=queue: queue.pop(0)
        with (
            anthropic.Anthropic(base_url=pair.here, api_key="k", max_retries=0) as claude,
            openai.OpenAI(base_url=f"{pair.here}/v1", api_key="k", max_retries=0) as gpt,
        ):
            queue += SDK_ANSWERS
            message = message_of(claude, stream)
            assert [block.type for block in message.content] == ["thinking", "text", "thinking", "text"]
            assert message.stop_reason == "end_turn"
            assert message.usage.output_tokens == 40, "both answers' usage"
            queue += SDK_ANSWERS
            text, reason, written, ids = chat_of(gpt, stream)
            assert "It was module_3_7." in text
            assert (reason, written, len(ids)) == ("stop", 40, 1)
            queue += SDK_ANSWERS
            response, numbers = response_of(gpt, stream)
            assert numbers == list(range(len(numbers)))
            assert bool(numbers) is stream
            assert [i.type for i in response.output] == ["reasoning", "message", "reasoning", "message"]
            assert response.usage.output_tokens == 40


def message_of(claude: anthropic.Anthropic, stream: bool) -> anthropic.types.Message:
    options: Any = {"model": "claude-opus-4-5", "max_tokens": 99, "tools": [TOOL["anthropic"]],
                    "messages": [{"role": "user", "content": "a"}]}  # fmt: skip
    if not stream:
        return claude.messages.create(**options)
    with claude.messages.stream(**options) as events:
        return events.get_final_message()


def chat_of(gpt: openai.OpenAI, stream: bool) -> tuple[str, str | None, int, set[str]]:
    """A chat completion as (text, reason to stop, tokens written, ids)."""
    options: Any = {"model": "gpt-5", "messages": [{"role": "user", "content": "b"}], "tools": [TOOL["openai-chat"]]}
    if not stream:
        chat = gpt.chat.completions.create(**options)
        choice = chat.choices[0]
        return choice.message.content or "", choice.finish_reason, chat.usage.completion_tokens, {chat.id}
    chunks = list(gpt.chat.completions.create(**options, stream=True))
    choices = [c.choices[0] for c in chunks if c.choices]
    reasons = [c.finish_reason for c in choices if c.finish_reason]
    text = "".join(c.delta.content or "" for c in choices)
    return text, " ".join(reasons), chunks[-1].usage.completion_tokens, {c.id for c in chunks}


def response_of(gpt: openai.OpenAI, stream: bool) -> tuple[Any, list[int]]:
    """A response, and the numbers of its events."""
    options: Any = {"model": "gpt-5", "input": [{"role": "user", "content": "c"}], "store": False,
                    "tools": [TOOL["openai-responses"]]}  # fmt: skip
    if not stream:
        return gpt.responses.create(**options), []
    events = list(gpt.responses.create(**options, stream=True))
    return events[-1].response, [event.sequence_number for event in events]


def test_offered_from_the_first_request_or_never() -> None:
    for pair in make_pair():
        tools = {"tools": [TOOL["openai-chat"]]}
        path, client = PATHS["openai-chat"], pair.client
        client.post(path, body_of("openai-chat", work(9, "openai-chat"), **tools))
        assert asked_tools(pair.upstream.requests[-1]) == ["Bash"], "joined in mid-session"
        fresh = [{"role": "user", "content": "hi"}]
        client.post(path, body_of("openai-chat", fresh))
        assert "tools" not in pair.upstream.requests[-1].body, "a client without tools"
        client.post(
            path, body_of("openai-chat", [{"role": "user", "content": "hello"}], **tools), user_agent="codex_cli_rs/1"
        )
        assert asked_tools(pair.upstream.requests[-1]) == ["Bash"], "a client that checks its tools"
    for pair in make_pair(recall="off"):
        pair.client.post(path, body_of("openai-chat", fresh, **tools))
        assert asked_tools(pair.upstream.requests[-1]) == ["Bash"]


def test_a_model_that_only_recalls_is_told_to_go_on() -> None:
    for pair in make_pair():
        talk = Talk(pair, "anthropic")
        talk.start()
        said = talk.ask(*[Turn(calls=(RECALL,)) for _ in range(9)])
        assert said["stop_reason"] == "end_turn"
        assert "No more recalls" in json.dumps(talk.sent())
        assert pair.metric("recalls_total") < 8


def test_hops_survive_a_restart(tmp_path: Path) -> None:
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        talk = Talk(pair, "openai-chat")
        talk.start()
        talk.ask(Turn(text="Let me look.", calls=(RECALL,)), Turn(text="It was module_3_7."))
        during, messages = talk.sent(), talk.messages
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        talk = Talk(pair, "openai-chat")
        talk.messages = [
            *messages,
            {"role": "assistant", "content": "Let me look.\n\nIt was module_3_7."},
            {"role": "user", "content": "Go on."},
        ]
        talk.ask(Turn(text="Done."))
        assert talk.sent()[: len(during)] == during


def test_a_rewound_turn_forgets_its_recalls() -> None:
    for pair in make_pair():
        talk = Talk(pair, "openai-chat")
        talk.start()
        talk.messages = [
            *talk.messages,
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": "What failed?"},
        ]
        talk.ask(Turn(calls=(RECALL,)), Turn(text="Nothing."))
        talk.messages = [*talk.messages[:-1], {"role": "user", "content": "Say something else."}]
        talk.ask(Turn(text="Else."))
        assert "archived passages" not in json.dumps(talk.sent())


def test_a_request_without_tools_gets_none() -> None:
    for pair in make_pair():
        talk = Talk(pair, "openai-chat")
        talk.start()
        pair.client.post(PATHS["openai-chat"], body_of("openai-chat", talk.messages))
        assert "tools" not in pair.upstream.requests[-1].body
