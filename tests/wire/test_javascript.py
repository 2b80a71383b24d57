"""The official JavaScript SDKs through the proxy; needs `DANSHARI_NODE_MODULES` (a folder with openai and @anthropic-ai/sdk)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from danshari.testing import Call, Turn
from tests.wire.test_proxy import make_pair

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
