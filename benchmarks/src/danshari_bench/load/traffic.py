"""Send recorded sessions through the real proxy to a scripted upstream that bills and validates requests."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from danshari import data
from danshari.formats import find_format
from danshari.replay.prompt_cache import DEFAULT_MODEL, request_boundaries
from danshari.replay.replay import replay
from danshari.sessions import RecordedSession
from danshari.testing.fake_provider import ScriptedUpstream


@dataclass(slots=True, kw_only=True)
class TrafficResult:
    """One session sent through the proxy."""

    session: str
    requests: int = 0
    units: float = 0.0
    """Input tokens times multiplier, as the upstream billed them."""
    replayed: float = 0.0
    """The same, as `danshari replay` works it out."""
    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)


@contextmanager
def serve_app(app: Any) -> Iterator[str]:
    """Serve an ASGI application on a free local port in a thread and yield its address."""
    import uvicorn

    from danshari.proxy.server import NotifyingServer, base_url_of, bind_socket
    from danshari.proxy.settings import Settings

    up, taken = threading.Event(), bind_socket(Settings(port=0))
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, timeout_keep_alive=75, server_header=False, date_header=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    server = NotifyingServer(config, up.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    if not up.wait(20):
        raise TimeoutError("the server did not start")
    try:
        yield base_url_of(taken)
    finally:
        server.should_exit = True
        thread.join(20)


def send_sessions(sessions: Sequence[RecordedSession], policy: str, tell: Callable[[int], None]) -> list[TrafficResult]:
    """Send every request of every session through one proxy, in the sessions' own formats."""
    from danshari.proxy.app import create_app
    from danshari.proxy.settings import Settings

    upstream = ScriptedUpstream(family_of=True)
    for session in sessions:
        upstream.forgiven |= {(p.rule, p.text) for p in find_format(session.format).check(session.messages)}
    with tempfile.TemporaryDirectory() as folder, serve_app(upstream) as there:
        settings = Settings(upstreams={"*": there}, policy=policy, archive=str(Path(folder) / "a.db"), sessions=4)
        with serve_app(create_app(settings)) as here:
            found = []
            for number, session in enumerate(sessions):
                found.append(_send_session(session, f"s{number}", here, tell))
                bill = upstream.bills[f"s{number}"]
                found[-1].units, found[-1].refused = bill.units, bill.problems
    for travelled, session in zip(found, sessions, strict=True):
        name = session.model or DEFAULT_MODEL
        played = replay(session, policy, model=name, window=data.find_model(name).window)
        travelled.replayed = played.cost
    return found


def _send_session(session: RecordedSession, name: str, base: str, tell: Callable[[int], None]) -> TrafficResult:
    """Send the requests of one session and record times and faults."""
    made, wire = TrafficResult(session=session.id), find_format(session.format)
    place = urlsplit(base)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=120)
    headers = {"content-type": "application/json", "authorization": "Bearer none", "x-session": name,
               "x-danshari-session": name}  # fmt: skip
    for cut in request_boundaries(session, wire):
        body = {"model": session.model or DEFAULT_MODEL, "max_tokens": 100, wire.key: session.messages[:cut]}
        raw = json.dumps(body, ensure_ascii=True, default=str).encode()
        started = time.perf_counter()
        connection.request("POST", f"/v1{find_format(session.format).api.request_path('')}", raw, headers)
        answer = connection.getresponse()
        answer.read()
        made.milliseconds.append(1000 * (time.perf_counter() - started))
        made.requests += 1
        if fault := answer.headers.get("x-danshari-fault"):
            made.faults.append(fault)
        if why := answer.headers.get("x-danshari-untouched"):
            made.untouched.append(why)
        tell(1)
    connection.close()
    return made
