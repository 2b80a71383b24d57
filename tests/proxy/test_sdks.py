"""The official SDKs get through the proxy what they get without it; JavaScript needs `DANSHARI_NODE_MODULES` (a folder with openai and @anthropic-ai/sdk)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from danshari.testing import Call, Turn
from tests.support.proxy import make_pair


@pytest.mark.parametrize("policy", ["off", "balanced"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_official_sdks_get_what_they_get_without_it(policy: str, stream: bool) -> None:
    turn = Turn(thinking="Think.", text="Some words. " * 12, calls=(
        Call(name="Read", arguments={"path": "a.py"}), Call(name="Bash", arguments={"command": "ls"})))  # fmt: skip
    for pair in make_pair(**({"off": True} if policy == "off" else {"policy": policy})):
        pair.upstream.script = lambda asked: turn
        seen = [sdk_answers(base, stream) for base in (pair.there, pair.here)]
        assert seen[0] == seen[1]


def sdk_answers(base: str, stream: bool) -> list[Any]:
    """One answer of each API through its SDK, without ids and sizes that count requests."""
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    ask = [{"role": "user", "content": [{"type": "image", "source": picture}, {"type": "text", "text": "hi"}]}]
    with (
        anthropic.Anthropic(base_url=base, api_key="k", max_retries=0) as claude,
        openai.OpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as gpt,
    ):
        return sdk_calls(claude, gpt, ask, stream)


def sdk_calls(claude: anthropic.Anthropic, gpt: openai.OpenAI, ask: Any, stream: bool) -> list[Any]:
    thinking: Any = {"type": "enabled", "budget_tokens": 1024}
    options: Any = {"model": "claude-opus-4-5", "max_tokens": 4000, "messages": ask, "thinking": thinking}
    if stream:
        with claude.messages.stream(**options) as events:
            message = events.get_final_message()
        chunks = list(
            gpt.chat.completions.create(model="gpt-5", stream=True, messages=[{"role": "user", "content": "hi"}])
        )
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        calls = [c.choices[0].delta.tool_calls for c in chunks if c.choices and c.choices[0].delta.tool_calls]
        kinds = [e.type for e in gpt.responses.create(model="gpt-5", stream=True, input="hi there")]
        return [strip(message.content), message.stop_reason, text, len(calls), kinds]
    message = claude.messages.create(**options)
    chat = gpt.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "hi"}]).choices[0]
    output = gpt.responses.create(model="gpt-5", input=[{"role": "user", "content": "hi"}]).output
    return [strip(message.content), message.stop_reason, strip([chat.message]), strip(output)]


def strip(values: Any) -> str:
    made = [v.model_dump(exclude={"id", "call_id", "signature"}) for v in values]
    for value in made:
        for call in value.get("tool_calls") or ():
            call.pop("id")
    return json.dumps(made)


MODULES = os.environ.get("DANSHARI_NODE_MODULES", "")


PROGRAM = """
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
const base = process.argv[2];
const gpt = new OpenAI({ baseURL: base + "/v1", apiKey: "k", maxRetries: 0 });
const claude = new Anthropic({ baseURL: base, apiKey: "k", maxRetries: 0 });
const ask = [{ role: "user", content: "hi" }];
const out = [];
const chat = await gpt.chat.completions.create({ model: "gpt-5", messages: ask });
out.push(chat.choices[0].message.content, chat.choices[0].message.tool_calls.map(c => c.function));
let text = "";
for await (const chunk of await gpt.chat.completions.create({ model: "gpt-5", messages: ask, stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
out.push(text);
const kinds = [];
for await (const event of await gpt.responses.create({ model: "gpt-5", input: ask, stream: true })) kinds.push(event.type);
out.push(kinds);
const whole = await claude.messages.create({ model: "claude-opus-4-5", max_tokens: 99, messages: ask });
out.push(whole.content.map(b => b.type), whole.stop_reason);
const final = await claude.messages.stream({ model: "claude-opus-4-5", max_tokens: 99, messages: ask }).finalMessage();
out.push(final.content.map(b => b.text ?? b.input ?? b.thinking), final.usage.output_tokens);
try { await claude.messages.create({ model: "claude-opus-4-5", max_tokens: 99, messages: [{ role: "assistant", content: "" }] }); } catch (error) { out.push(error.status, error.error?.error?.type); }
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(not MODULES or shutil.which("node") is None, reason="set DANSHARI_NODE_MODULES and install node")
@pytest.mark.parametrize("off", [True, False])
def test_javascript_sdks_get_what_they_get_without_it(tmp_path: Path, off: bool) -> None:
    (tmp_path / "node_modules").symlink_to(Path(MODULES).resolve())
    (tmp_path / "run.mjs").write_text(PROGRAM)
    turn = Turn(thinking="Hm.", text="Some words. " * 9, calls=(Call(name="Read", arguments={"path": "ä.py"}),))

    def said(base: str) -> Any:
        done = subprocess.run(["node", str(tmp_path / "run.mjs"), base], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    for pair in make_pair(off=off):
        pair.upstream.script = lambda asked: turn
        found = [said(pair.there), said(pair.here)]
        assert found[0] == found[1]
        assert found[0][-2:] == [400, "invalid_request_error"]
