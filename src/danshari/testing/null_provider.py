"""A minimal upstream server for load tests of proxies.

It answers with prepared bytes; the events of a stream are numbered. Usage: `python -m
danshari.bench.quick PORT`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from danshari.formats import FORMATS
from danshari.formats.script import Turn

_USAGE = {"fresh": 10, "cached": 0, "written": 0, "output": 5}
JSON_RESPONSES = {
    name: json.dumps(wire.script.response(Turn(text="ok"), _USAGE, model="m", number=1)).encode()
    for name, wire in FORMATS.items()
}


def make_numbered_event(number: int) -> bytes:
    """Return one event of a chat completions stream whose content is the number."""
    choice = {"index": 0, "delta": {"content": f"{number} "}, "finish_reason": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(head)}\n\n".encode()


async def app(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Answer one ASGI request.

    Header `x-events` is the number of stream events, `x-pause` the seconds between them.
    """
    if scope["type"] != "http":
        return
    more, stream = True, False
    while more:
        message = await receive()
        stream = stream or b'"stream": true' in message.get("body", b"") or b'"stream":true' in message.get("body", b"")
        more = message.get("more_body", False)
    if stream:
        headers = dict(scope["headers"])
        count, pause = int(headers.get(b"x-events", b"20")), float(headers.get(b"x-pause", b"0"))
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for number in range(count):
            await send({"type": "http.response.body", "body": make_numbered_event(number), "more_body": True})
            if pause:
                await asyncio.sleep(pause)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
        return
    fits = (name for name, wire in FORMATS.items() if wire.api.matches_path(scope["path"]))
    body = JSON_RESPONSES[next(fits, "openai-chat")]
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def main(port: int) -> None:
    """Serve on a port of this machine."""
    import uvicorn

    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", port))
    uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off", backlog=4096)).run(
        [taken]
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
