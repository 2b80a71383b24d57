"""Sessions, branches and tenants are told apart, and found again after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danshari import Compactor
from danshari.archive.location import open_archive
from danshari.core.recall_tools import READ_TOOL
from danshari.formats import find_format
from danshari.proxy.sessions.registry import client_session_key, hash_credential
from danshari.testing import Call, Turn, conversation
from tests.support.proxy import PATHS, Pair, body_of, make_pair, round_by_round, work
from tests.support.recalls import TOOL


def test_sessions_are_told_apart(pair: Pair) -> None:
    client, one = pair.client, work(4, "openai-chat")
    other = conversation("openai-chat", "Write a poem.", [Turn(text="Roses.", user="More.")])

    def name(messages: list[Any], **headers: str) -> str:
        return client.post("/v1/chat/completions", body_of("openai-chat", messages), **headers)[1]["x-danshari-session"]

    first = name(one[:3], authorization="Bearer a")
    assert name(one[:3], authorization="Bearer a") == first, "a retry"
    assert name(one[:5], authorization="Bearer a") == first, "the next request"
    assert name(other, authorization="Bearer a") != first, "another conversation"
    assert name(one[:5], authorization="Bearer b") != first, "another tenant"
    assert name(one[:5], authorization="Bearer a", session_id="x") != first, "a client's own key"
    assert len(pair.app.state.sessions.all_branches()) == 4


def test_a_fork_takes_over_what_was_decided(pair: Pair) -> None:
    messages = work(20, "openai-chat")
    sent = round_by_round(pair, "openai-chat", messages)
    assert sent != messages
    fork = [*messages[:21], {"role": "user", "content": "Do it another way."}]
    _, headers, _ = pair.client.post("/v1/chat/completions", body_of("openai-chat", fork))
    assert headers["x-danshari-session"].count("-") == 2
    again = json.loads(pair.upstream.requests[-1].raw)["messages"]
    assert again[:21] == sent[:21]
    assert again != fork
    pair.client.post("/v1/chat/completions", body_of("openai-chat", messages))
    assert json.loads(pair.upstream.requests[-1].raw)["messages"] == sent, "the first branch stands"


@pytest.mark.parametrize("format_name", PATHS)
def test_a_restart_changes_no_byte(tmp_path: Path, format_name: str) -> None:
    messages = work(24, format_name)
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        sent = round_by_round(pair, format_name, messages)
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        _, headers, _ = pair.client.post(PATHS[format_name], body_of(format_name, messages))
        assert headers["x-danshari-edits"] == "0"
        assert json.loads(pair.upstream.requests[-1].raw)[find_format(format_name).key] == sent != messages


def test_a_tenant_never_reads_what_another_archived(tmp_path: Path) -> None:
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        sent = round_by_round(pair, "anthropic", work(8, "anthropic"), x_api_key="tenant-a")
        shown = json.dumps(sent)
        digest = shown.split("archived as ")[1][:12]
        asked = Turn(calls=(Call(name=READ_TOOL, arguments={"id": digest[:8]}),))
        queue = [asked, Turn(text="ok")]
        pair.upstream.script = lambda request: queue.pop(0) if queue else Turn(text="ok")
        body = body_of("anthropic", [{"role": "user", "content": "hi"}], tools=[TOOL["anthropic"]])
        pair.client.post("/v1/messages", body, x_api_key="tenant-b")
        answered = json.dumps(pair.upstream.requests[-1].body)
        assert "nothing recalled" in answered
        assert "compiled module" not in answered


def test_tenants_that_archived_the_same_text_each_find_it(tmp_path: Path) -> None:
    tenants = ("tenant-a", "tenant-b")
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        for tenant in tenants:
            sent = round_by_round(pair, "anthropic", work(8, "anthropic"), x_api_key=tenant)
        names = [keeper.name for keeper in pair.app.state.sessions.all_branches()]
    digest = json.dumps(sent).split("archived as ")[1][:12]
    places = [(name, "") for name in names]
    places += [("another", f"proxy/{hash_credential(tenant)}") for tenant in tenants]
    with open_archive(tmp_path / "a.db") as archive:
        for session, project in [*places, ("another", "elsewhere")]:  # later: no conversation holds the text any more
            alone = Compactor("balanced", archive=archive, session=session, project=project, confined=True)
            said = alone.run_recall(READ_TOOL, {"id": digest})
            assert ("compiled module" in said) is ((session, project) in places), said


def test_branches_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Whichever branch comes first after a restart, each goes on with its own ledger."""
    one = work(20, "openai-chat")
    two = [*one[:21], {"role": "user", "content": "Do it another way."}, *one[21:]]
    sent: dict[str, Any] = {}
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        sent["one"] = round_by_round(pair, "openai-chat", one)
        sent["two"] = round_by_round(pair, "openai-chat", two, start=22)
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        for name, messages in (("two", two), ("one", one)):
            pair.client.post(PATHS["openai-chat"], body_of("openai-chat", messages))
            assert json.loads(pair.upstream.requests[-1].raw)["messages"] == sent[name], name
    assert find_format("openai-chat").check(sent["two"]) == []


@pytest.mark.parametrize(
    ("headers", "values", "key"),
    [
        ({"x-claude-code-session-id": "s1"}, {}, "s1"),
        ({"x-claude-code-session-id": "s1", "x-claude-code-agent-id": "a1"}, {}, "s1 a1"),
        ({}, {"metadata": {"user_id": '{"device_id": "d", "session_id": "s2"}'}}, "s2"),
        ({}, {"metadata": {"user_id": "user_1_account_2_session_s3"}}, "s3"),
        ({}, {"metadata": {"user_id": "{broken"}}, "{broken"),
        ({"session-id": "s4"}, {"prompt_cache_key": "other"}, "s4"),
        ({}, {"prompt_cache_key": "s5"}, "s5"),
        ({"x-danshari-session": "mine", "session-id": "s4"}, {}, "mine"),
        ({}, {"metadata": [1], "prompt_cache_key": 3}, ""),
    ],
)
def test_clients_own_keys(headers: dict[str, str], values: dict[str, Any], key: str) -> None:
    assert client_session_key(find_format("anthropic").api, headers, values) == key
