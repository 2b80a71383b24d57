"""Hand-overs written by the client's own model, while everything else goes on."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from pathlib import Path

import pytest

from danshari.testing import Turn
from danshari.testing.fake_provider import UpstreamRequest
from tests.support.proxy import PATHS, Client, HeldUpstream, body_of, make_pair, round_by_round, work
from tests.support.waiting import PATIENCE, wait_until


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
        round_by_round(pair, format_name, work(24, format_name), authorization="Bearer own-key")
        assert asked
        assert {a.headers.get("authorization") for a in asked} == {"Bearer own-key"}
        keeper = pair.app.state.sessions.all_branches()[0]
        assert any(
            "module_3_7 compiled without a warning." in str(h.to_dict()) for h in keeper.compactor.session.handovers
        )
        assert keeper.client_model.post is None, "the key is not kept"


SMALL = 'extends = "balanced"\nactive = 0.04\nmajor = 0.05\nadmit_over = 0\nsummary_seconds = 60\n'
"""Hand-overs come early, and are waited for longer than a client waits."""


def asks_for_hand_over(raw: bytes) -> bool:
    return b"hand-over" in raw[-6000:]


def test_a_switch_of_the_model_does_not_wait_on_the_loop(tmp_path: Path) -> None:
    """While a hand-over is being written, everything else goes on."""
    policy = tmp_path / "small.toml"
    policy.write_text(SMALL)
    upstream = HeldUpstream(
        asks_for_hand_over, script=lambda asked: Turn(text="{}" if asks_for_hand_over(asked.raw) else "ok")
    )
    for pair in make_pair(upstream=upstream, policy=str(policy), handover="model"):
        messages = work(24, "anthropic")
        asking = threading.Thread(target=lambda: round_by_round(pair, "anthropic", messages))
        asking.start()
        assert upstream.held.wait(PATIENCE)
        other = {**body_of("anthropic", messages[:21]), "model": "claude-haiku-4-5"}
        switching = threading.Thread(target=lambda: Client(pair.here).post("/v1/messages", other))
        switching.start()
        wait_until(lambda: pair.metric("running") == 2)
        assert pair.get("/healthz") == b"ok\n"
        assert asking.is_alive()
        upstream.released.set()
        asking.join(2 * PATIENCE)
        switching.join(PATIENCE)
        assert not asking.is_alive()
        assert not switching.is_alive()


def test_a_client_that_leaves_while_a_hand_over_is_written(tmp_path: Path) -> None:
    policy = tmp_path / "small.toml"
    policy.write_text(SMALL)
    upstream = HeldUpstream(
        asks_for_hand_over, script=lambda asked: Turn(text="{}" if asks_for_hand_over(asked.raw) else "ok")
    )
    for pair in make_pair(upstream=upstream, policy=str(policy), handover="model"):
        messages = work(40, "anthropic")
        for cut in range(2, len(messages), 2):
            client = Client(pair.here)
            client.connection.request("POST", "/v1/messages", json.dumps(body_of("anthropic", messages[:cut])),
                                      {"content-type": "application/json"})  # fmt: skip
            asking = threading.Thread(target=read_if_answered, args=(client,))
            asking.start()
            wait_until(lambda asking=asking: upstream.held.is_set() or not asking.is_alive())
            if upstream.held.is_set():
                break
        assert upstream.held.is_set()
        client.connection.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
        asking.join(PATIENCE)
        assert not asking.is_alive()
        upstream.released.set()
        wait_until(lambda: pair.metric("running") == 0)
        assert pair.client.post("/v1/messages", body_of("anthropic", messages))[0] == 200
        assert not pair.upstream.bills[""].problems


def read_if_answered(client: Client) -> None:
    try:
        client.connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return
