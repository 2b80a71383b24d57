"""Summarizers over real HTTP on the loopback: a server of the test's own, and, if asked for, a real local model."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from danshari import Compactor, data, endpoint, provider
from danshari.analysis.identifiers import find_names
from danshari.compaction import Compaction
from danshari.errors import ArgumentError, MissingExtra, ModelError
from danshari.formats import find_format
from danshari.handovers.validate import collect_names
from danshari.summarizers import as_reply
from danshari.summarizers.endpoint import MAX_SUMMARY_BYTES
from danshari.testing import Call, Turn, conversation

DELTA = json.dumps({"add": {"conclusions": ["src/app_3.py was read."]}})


ANSWERS: dict[str, Any] = {
    "openai-chat": {"id": "c1", "object": "chat.completion", "created": 1, "model": "m",
                    "choices": [{"index": 0, "message": {"role": "assistant", "content": DELTA}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920,
                              "prompt_tokens_details": {"cached_tokens": 800}}},
    "anthropic": {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": DELTA}], "stop_reason": "end_turn",
                  "usage": {"input_tokens": 100, "cache_read_input_tokens": 800, "output_tokens": 20}},
    "openai-responses": {"status": "completed", "usage": {"input_tokens": 900, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 800}},
                         "output": [{"type": "message", "content": [{"type": "output_text", "text": DELTA}]}]},
}  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    how = "openai-chat"
    let_go = threading.Event()
    seen: list[tuple[str, dict[str, str], Any]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _Handler.seen.append((self.path, dict(self.headers), body))
        how = _Handler.how
        if how == "hang":
            _Handler.let_go.wait()
            return
        if how == "overflow":
            self._send(400, json.dumps({"error": {"code": "context_length_exceeded"}}).encode())
        elif how == "huge":
            self._send(200, b'{"text": "' + b"x" * (MAX_SUMMARY_BYTES + 10) + b'"}')
        elif how == "half":
            self.send_response(200)
            self.send_header("content-length", "5000")
            self.end_headers()
            self.wfile.write(b'{"choices": [{"mess')
        elif how == "prose":
            self._send(200, b"Internal gateway page")
        else:
            self._send(200, json.dumps(ANSWERS[how]).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            return

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}/v1"
    _Handler.let_go.set()
    made.shutdown()
    made.server_close()


def session(format_name: str, rounds: int = 12) -> list[Any]:
    turns = [
        Turn(
            text=f"Reading src/app_{n}.py.",
            calls=(Call(name="Read", arguments={"file_path": f"src/app_{n}.py"}, result=f"def run_{n}(): ...\n" * 50),),
        )
        for n in range(rounds)
    ]
    return conversation(format_name, "Find the leak in src/app_3.py.", turns)


def compacted(answer: Any, format_name: str, **knobs: Any) -> Compaction:
    policy = data.load_policy("balanced").with_fields(handover_tail=0.0, **knobs)
    engine = Compactor(policy, model="gpt-5", format=format_name, summarizer=answer)
    result = engine.compact(session(format_name), force="full")
    assert result.ok, result.fault
    assert find_format(format_name).check(result.messages) == []
    return result


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("style", ["openai-chat", "anthropic", "openai-responses"])
def test_every_style_of_endpoint(server: str, style: Any, same: bool) -> None:
    _Handler.how = style
    result = compacted(endpoint(server, model="m", key="k", format=style, same_model=same), style)
    assert "src/app_3.py was read." in str(result.messages)
    assert (result.rungs[0].name, result.rungs[0].cached) == ("warm" if same else "flat", 800)
    path, headers, body = _Handler.seen[-1]
    assert (
        path
        == {"openai-chat": "/v1/chat/completions", "anthropic": "/v1/messages", "openai-responses": "/v1/responses"}[
            style
        ]
    )
    assert headers.get("X-Api-Key" if style == "anthropic" else "Authorization") == (
        "k" if style == "anthropic" else "Bearer k"
    )
    assert body["input" if style == "openai-responses" else "messages"]
    assert any(body.get(limit) for limit in ("max_output_tokens", "max_completion_tokens", "max_tokens"))


@pytest.mark.parametrize("base", ["", "/", "/chat/completions", "/chat/completions/"])
@pytest.mark.parametrize("query", ["", "?api-version=2024", "?next=/a&b=/"])
def test_the_path_is_completed_and_the_query_stays(server: str, base: str, query: str) -> None:
    _Handler.how = "openai-chat"
    compacted(endpoint(f"{server}{base}{query}", model="m"), "openai-chat")
    assert _Handler.seen[-1][0] == f"/v1/chat/completions{query}"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("hang", "no answer within|timed out"),
        ("overflow", "answered 400.*context_length_exceeded"),
        ("huge", "more than"),
        ("half", "IncompleteRead|no JSON"),
        ("prose", "no JSON"),
    ],
)
def test_whatever_the_server_does_the_ladder_goes_on(server: str, how: str, why: str) -> None:
    _Handler.how = how
    result = compacted(
        endpoint(server, model="m"), "openai-chat", summary_tries=1, summary_seconds=0.5 if how == "hang" else 30.0
    )
    assert result.layer == "fallback"
    assert re.search(why, " ".join(r.why for r in result.rungs)), result.rungs


def test_a_conversation_of_another_format_goes_flat(server: str) -> None:
    _Handler.how = "openai-chat"
    result = compacted(endpoint(server, model="m", same_model=True), "anthropic")
    assert [r.name for r in result.rungs] == ["warm", "flat"]
    assert "the endpoint takes openai-chat" in result.rungs[0].why


def test_nobody_there_and_wrong_addresses() -> None:
    result = compacted(endpoint("http://127.0.0.1:9", model="m"), "openai-chat", summary_tries=1)
    assert result.layer == "fallback"
    with pytest.raises(ArgumentError, match="http"):
        endpoint("localhost:80", model="m")
    with pytest.raises(ArgumentError, match="http://\\[::1"):
        endpoint("http://[::1/v1", model="m")
    with pytest.raises(ArgumentError, match="format"):
        endpoint("http://localhost", model="m", format="soap")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="provider:model"):
        provider("mistral")
    with pytest.raises(ModelError, match=r"number|type int"):
        as_reply(7)


ANY_LLM = importlib.util.find_spec("any_llm") is not None


@pytest.mark.skipif(ANY_LLM, reason="any-llm is installed")
def test_other_providers_are_an_extra() -> None:
    with pytest.raises(MissingExtra, match=r"danshari\[models\]"):
        provider("openai:gpt")


@pytest.mark.skipif(not ANY_LLM, reason="any-llm is not installed")
def test_with_the_extra_the_same_endpoint_answers(server: str) -> None:
    _Handler.how = "openai-chat"
    result = compacted(provider("openai:gpt", api_key="k", api_base=server), "openai-chat")
    assert "src/app_3.py was read." in str(result.messages)


LOCAL = os.environ.get("DANSHARI_LOCAL_MODEL", "")


@pytest.mark.skipif(
    not LOCAL, reason="set DANSHARI_LOCAL_MODEL to the URL of a local endpoint, such as http://127.0.0.1:8080/v1"
)
def test_a_real_local_model_is_repaired_or_refused() -> None:
    """A tiny model's summaries are garbage: every one must be repaired or refused, and nothing may be lost."""
    answer = endpoint(LOCAL, model=os.environ.get("DANSHARI_LOCAL_NAME", "local"), window=8_000, seconds=300)
    plain = compacted(None, "openai-chat", summary_seconds=300.0)
    for tries in (1, 2):
        result = compacted(answer, "openai-chat", summary_tries=tries, summary_seconds=300.0, summary_tokens=300)
        known = collect_names(str(m) for m in session("openai-chat"))
        assert result.handover is not None
        said = [p.text for points in result.handover.fields.values() for p in points if p.by == "model"]
        assert all(set(find_names(text)) <= known for text in said)
        for name in ("words", "files", "tests", "todo"):
            assert plain.handover is not None
            assert result.handover[name] == plain.handover[name]
