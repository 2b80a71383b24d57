"""Golden sessions: the edits that each policy makes on the bundled sessions; update with DANSHARI_UPDATE=1, review the diff."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from danshari import handover, handover_text
from danshari.cli.report import bundled_sessions
from danshari.compactor import Compactor
from danshari.core.edits import Replace
from danshari.formats import find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari.replay.replay import replay
from danshari.sessions import read

POLICIES = ("balanced", "literal", "repair", "architecture")
GOLDEN = Path(__file__).parent / "edits.json"


def edits_of(path: Path, policy: str) -> list[str]:
    """List every edit as `request pass kind item-length → new length`, the whole session through."""
    session = next(iter(read(path)))
    engine = Compactor(policy, model=session.model, format=session.format, clock=lambda: 0.0)
    found = []
    for number, at in enumerate(request_boundaries(session, find_format(session.format)), 1):
        result = engine.compact(session.messages[:at])
        items = {i.id: i for i in engine.view().items}
        for edit in result.edits:
            if isinstance(edit, Replace):
                found.append(f"{number} {edit.by} {items[edit.id].name} {len(items[edit.id].text)} → {len(edit.text)}")
            else:
                found.append(f"{number} {edit.by} {type(edit).__name__}")
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", bundled_sessions(), ids=lambda p: p.stem)
def test_edits(path: Path, policy: str) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    key = f"{path.stem} {policy}"
    found = edits_of(path, policy)
    if os.environ.get("DANSHARI_UPDATE"):
        golden[key] = found
        GOLDEN.write_text(json.dumps(golden, ensure_ascii=False, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    assert found == golden[key]


def test_bundled_sessions_are_what_they_promise() -> None:
    """At least four, sixty rounds each, in three formats, one in Chinese."""
    sessions = [next(iter(read(path))) for path in bundled_sessions()]
    assert len(sessions) >= 4
    assert {s.format for s in sessions} == {"openai-chat", "anthropic", "openai-responses"}
    assert any("修复" in json.dumps(s.messages, ensure_ascii=False) for s in sessions)
    for session in sessions:
        assert sum(1 for _ in request_boundaries(session, find_format(session.format))) >= 60
        assert find_format(session.format).check(session.messages) == []


@pytest.mark.parametrize("path", bundled_sessions(), ids=lambda p: p.stem)
def test_balanced_is_cheaper_and_keeps_what_edits_need(path: Path) -> None:
    session = next(iter(read(path)))
    off, balanced = (replay(session, policy, check=True, measure=True) for policy in ("off", "balanced"))
    assert balanced.cost < off.cost
    kept, n = balanced.tally["edits"]
    assert kept == n > 10
    assert not [r for r in balanced.rounds if r.problems]


@pytest.mark.parametrize("path", bundled_sessions(), ids=lambda p: p.stem)
def test_documents(path: Path) -> None:
    """The hand-over of every bundled session, to the byte; the same in another process under another hash seed."""
    session = next(iter(read(path)))
    text = handover_text(handover(session.messages, size=6_000, format=session.format)) + "\n"
    golden = GOLDEN.parent / "documents" / f"{path.stem}.md"
    if os.environ.get("DANSHARI_UPDATE"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    env = {**os.environ, "PYTHONHASHSEED": "77"}
    words = [sys.executable, "-m", "danshari", "handover", str(path), "--size", "6000"]
    assert subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout == text
