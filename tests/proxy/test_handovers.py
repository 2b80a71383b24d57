"""Hand-overs written by the client's own model, while everything else goes on."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from danshari.testing import Turn
from danshari.testing.fake_provider import ScriptedFailure, UpstreamRequest
from tests.support.proxy import PATHS, Client, body_of, make_pair, round_by_round, work
from tests.support.waiting import wait_until


@pytest.mark.parametrize("format_name", PATHS)
def test_a_hand_over_is_asked_of_the_clients_own_model(tmp_path: Path, format_name: str) -> None:
    """With the client's own key, at the same place, its messages first: the cached prefix is read."""
    policy = tmp_path / "small.toml"
    policy.write_text('extends = "balanced"\nactive = 0.04\nmajor = 0.05\nadmit_over = 0\n')
    said = json.dumps(
        {"add": {"conclusions": ["module_3_7 compiled without a warning."], "next": ["Run make part_3."]}}
    )
    for pair in make_pair(policy=str(policy), handover="model"):
        asked: list[UpstreamRequest] = []

        def script(request: UpstreamRequest, asked: list[UpstreamRequest] = asked) -> Turn:
            if (len(request.raw) > 3000 and b"<transcript" in request.raw) or b"hand-over" in request.raw[-6000:]:
                asked.append(request)
                return Turn(text=said)
            return Turn(text="ok")

        pair.upstream.script = script
        round_by_round(pair, format_name, work(40, format_name), authorization="Bearer own-key")
        assert asked
        assert {a.headers.get("authorization") for a in asked} == {"Bearer own-key"}
        keeper = pair.app.state.sessions.all_branches()[0]
        assert any(
            "module_3_7 compiled without a warning." in str(h.to_dict()) for h in keeper.compactor.session.handovers
        )
        assert keeper.client_model.post is None, "the key is not kept"


def test_a_switch_of_the_model_does_not_wait_on_the_loop(tmp_path: Path) -> None:
    """While a hand-over is being written, everything else goes on."""
    policy = tmp_path / "small.toml"
    policy.write_text('extends = "balanced"\nactive = 0.04\nmajor = 0.05\nadmit_over = 0\nsummary_seconds = 4\n')
    writing, go = threading.Event(), threading.Event()

    def script(asked: UpstreamRequest) -> Any:
        if b"hand-over" in asked.raw[-6000:] and not go.is_set():
            writing.set()
            return Turn(text="{}"), ScriptedFailure(stall=2.5)
        return Turn(text="ok")

    for pair in make_pair(policy=str(policy), handover="model"):
        pair.upstream.script = script
        messages = work(40, "anthropic")
        asking = threading.Thread(target=lambda: round_by_round(pair, "anthropic", messages))
        asking.start()
        assert writing.wait(60)
        other = {**body_of("anthropic", messages[:21]), "model": "claude-haiku-4-5"}
        switching = threading.Thread(target=lambda: Client(pair.here).post("/v1/messages", other))
        switching.start()
        begun = time.monotonic()
        client = pair.client
        client.connection.request("GET", "/healthz")
        client.connection.getresponse().read()
        assert time.monotonic() - begun < 1.5
        go.set()
        asking.join(120)
        switching.join(30)


def test_a_client_that_leaves_while_a_hand_over_is_written(tmp_path: Path) -> None:
    policy = tmp_path / "small.toml"
    policy.write_text('extends = "balanced"\nactive = 0.04\nmajor = 0.05\nadmit_over = 0\nsummary_seconds = 3\n')
    writing = threading.Event()

    def script(asked: UpstreamRequest) -> Any:
        if b"hand-over" in asked.raw[-6000:]:
            writing.set()
            return Turn(text="{}"), ScriptedFailure(stall=1.5)
        return Turn(text="ok")

    for pair in make_pair(policy=str(policy), handover="model"):
        pair.upstream.script = script
        messages = work(40, "anthropic")
        for cut in range(2, len(messages), 2):
            client = Client(pair.here)
            client.connection.request("POST", "/v1/messages", json.dumps(body_of("anthropic", messages[:cut])),
                                      {"content-type": "application/json"})  # fmt: skip
            if writing.is_set():
                client.connection.close()
                break
            asking = threading.Thread(target=lambda client=client: answered(client))
            asking.start()
            while asking.is_alive() and not writing.is_set():
                asking.join(0.02)
            if writing.is_set():
                client.connection.sock.shutdown(2)  # type: ignore[union-attr]
                asking.join(10)
                break
        assert writing.is_set()
        wait_until(lambda: pair.metric("running") == 0)
        assert pair.client.post("/v1/messages", body_of("anthropic", messages))[0] == 200
        assert not pair.upstream.bills[""].problems


def answered(client: Client) -> None:
    try:
        client.connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return
