"""Google's own client, and the requests it sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google import genai
from google.genai import types

from danshari.formats import find_format
from danshari.testing import Call, Turn
from tests.support.proxy import Pair, work

MODEL = "gemini-3-pro-preview"
PATH = f"/v1beta/models/{MODEL}:generateContent"
STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
WIRE = find_format("gemini")
BASH: dict[str, Any] = {"functionDeclarations": [{"name": "Bash", "parametersJsonSchema": {"type": "object"}}]}
BUILD = Call(name="Bash", arguments={"command": "make part_9"})
LONG = "\n".join(f"[{n}] compiled module_{n} without a warning" for n in range(300))


@contextmanager
def client_of(base: str, key: str = "k") -> Iterator[genai.Client]:
    options = types.HttpOptions(base_url=base, retry_options=types.HttpRetryOptions(attempts=1))
    client = genai.Client(api_key=key, http_options=options)
    try:
        yield client
    finally:
        client.close()


def config(**more: Any) -> types.GenerateContentConfig:
    """A configuration with one tool, whose calls the caller answers."""
    manual = types.AutomaticFunctionCallingConfig(disable=True)
    return types.GenerateContentConfig(**{"tools": [BASH], "automatic_function_calling": manual, **more})


def ask(client: genai.Client, contents: Any, stream: bool, **more: Any) -> list[types.GenerateContentResponse]:
    """The answer, or what came of it piece by piece."""
    options: dict[str, Any] = {"model": MODEL, "contents": contents, "config": config(**more)}
    if stream:
        return list(client.models.generate_content_stream(**options))
    return [client.models.generate_content(**options)]


def parts_of(answers: list[types.GenerateContentResponse]) -> list[types.Part]:
    return [p for a in answers if a.candidates and a.candidates[0].content for p in a.candidates[0].content.parts or ()]


def text_of(answers: list[types.GenerateContentResponse]) -> str:
    return "".join(p.text or "" for p in parts_of(answers) if not p.thought)


def declared(body: Any) -> list[str]:
    return [f["name"] for tool in body.get("tools", ()) for f in tool.get("functionDeclarations", ())]


def sent(pair: Pair) -> list[Any]:
    found: list[Any] = pair.upstream.requests[-1].body["contents"]
    return found


def playing(pair: Pair, *turns: Any) -> None:
    """Let the upstream answer these one after the other, then `ok`."""
    queue = list(turns)
    pair.upstream.script = lambda asked: queue.pop(0) if queue else Turn(text="ok")


def grown(client: genai.Client, pair: Pair, rounds: int = 8) -> list[Any]:
    """Send a session round by round, so that something is squeezed; give its contents."""
    contents = work(rounds, "gemini")
    cuts = [n for n, m in enumerate(contents) if n and WIRE.begins_turn(m, contents[n - 1])]
    for cut in [*cuts, len(contents)]:
        ask(client, contents[:cut], stream=False)
    assert not pair.upstream.bills[""].problems
    return contents
