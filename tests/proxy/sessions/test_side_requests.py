"""Requests that count or compact a model's messages are answered for the view that the model is really sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from danshari_bench.load.traffic import serve_app

from danshari.formats import FORMATS, find_format
from danshari.proxy.app import create_app
from danshari.proxy.http.request import find_request_format
from danshari.proxy.settings import Settings
from tests.support.proxy import JSON, PATHS, Client, body_of, work
from tests.support.recalls import TOOL

SIDES = [(name, PATHS[name].removesuffix(wire.api.path) + end)
         for name, wire in FORMATS.items() if name in PATHS for end in wire.api.side_paths]  # fmt: skip


class Recorder:
    """An upstream that keeps the bodies it was sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(json.loads(raw))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", JSON)]})
        await send({"type": "http.response.body", "body": b'{"input_tokens": 7}'})


@pytest.mark.parametrize("recall", ["on", "off"])
@pytest.mark.parametrize(("format_name", "path"), SIDES)
def test_what_is_counted_is_what_the_model_is_sent(format_name: str, path: str, recall: Any) -> None:
    upstream, wire = Recorder(), find_format(format_name)
    with serve_app(upstream) as there:
        app = create_app(Settings(upstreams={"*": there}, archive=":memory:", recall=recall))
        with serve_app(app) as here:
            client = Client(here)
            for rounds in (1, 4, 8):
                body = body_of(format_name, work(rounds, format_name), tools=[TOOL[format_name]], store=False)
                client.post(PATHS[format_name], body)
            before = [line for line in metrics(client) if "tokens" in line or "decisions" in line]
            status, headers, said = client.post(path, body)
            assert (status, said) == (200, b'{"input_tokens": 7}')
            assert "x-danshari-fault" not in headers
            main, side = upstream.bodies[-2:]
            assert side == main
            assert len(json.dumps(side[wire.key])) < len(json.dumps(body[wire.key])), "not the whole history"
            assert before == [line for line in metrics(client) if "tokens" in line or "decisions" in line]
            client.connection.close()


def metrics(client: Client) -> list[str]:
    client.connection.request("GET", "/metrics")
    return client.connection.getresponse().read().decode().splitlines()


def test_every_side_path_is_known_and_summaries_go_to_the_model() -> None:
    for wire in FORMATS.values():
        for end in wire.api.side_paths:
            model = wire.api.request_path("m")
            path = "/v1" + (model.replace(wire.api.path, end) if model != wire.api.path else end)
            assert find_request_format("POST", path) is wire
            assert find_request_format("GET", path) is None
            assert not wire.api.matches_path(path)
            assert wire.api.summary_url(f"http://h{path}?beta=true") == f"http://h/v1{model}?beta=true"
