"""A session with scripted answers, in which the model asks for recalls."""

from __future__ import annotations

import json
from typing import Any

from danshari.formats import find_format
from danshari.pipeline.recall import SEARCH_TOOL
from danshari.testing import Call, Turn
from danshari.testing.fake_provider import UpstreamRequest
from tests.support.proxy import PATHS, body_of, work

TOOL: dict[str, Any] = {
    "anthropic": {"name": "Bash", "description": "Run.", "input_schema": {"type": "object", "properties": {}}},
    "openai-chat": {
        "type": "function",
        "function": {"name": "Bash", "parameters": {"type": "object", "properties": {}}},
    },
    "openai-responses": {"type": "function", "name": "Bash", "parameters": {"type": "object", "properties": {}}},
}


RECALL = Call(name=SEARCH_TOOL, arguments={"query": "module_3_7"})


def asked_tools(asked: UpstreamRequest) -> list[str]:
    return [str(t.get("name") or t["function"]["name"]) for t in asked.body.get("tools", ())]


class Talk:
    """A session whose next answers are scripted, with requests as a client would send them."""

    def __init__(self, pair: Any, format_name: str) -> None:
        self.pair, self.name, self.wire = pair, format_name, find_format(format_name)
        self.messages = work(1, format_name)[:-1]
        self.answers: list[Turn] = []
        pair.upstream.script = lambda asked: self.answers.pop(0) if self.answers else Turn(text="ok")

    def ask(self, *answers: Turn, stream: bool = False) -> Any:
        self.answers = list(answers)
        body = body_of(self.name, self.messages, tools=[TOOL[self.name]], stream=stream, store=False)
        status, headers, said = self.pair.client.post(PATHS[self.name], body)
        assert status == 200, said
        assert "x-danshari-fault" not in headers, headers
        return said if stream else json.loads(said)

    def start(self) -> None:
        """Send a session round by round until something was squeezed."""
        cuts = [n for n, m in enumerate(work(8, self.name)) if n]
        for cut in cuts:
            if self.wire.begins_turn(work(8, self.name)[cut], work(8, self.name)[cut - 1]):
                self.messages = work(8, self.name)[:cut]
                self.ask()
        self.messages = work(8, self.name)
        self.ask()

    def sent(self) -> list[Any]:
        found: list[Any] = self.pair.upstream.requests[-1].body[self.wire.key]
        return found
