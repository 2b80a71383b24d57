"""Parts of a policy, switched off one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from danshari_bench.comparison import ablation
from danshari_bench.comparison.ablation import ablate, list_variants

from danshari import data
from danshari.errors import SessionError
from danshari.sessions import RecordedSession
from danshari.testing import Call, Turn, conversation
from tests.support.comparisons import one_by_one, recorded_session, run_bench


def test_a_part_switched_off_is_held_against_the_whole(tmp_path: Path) -> None:
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make part_{n}"},
                         result="\n".join(f"line {k} of part_{n}.log: step_{n}_{k} done" for k in range(80))),))
        for n in range(21)
    ]  # fmt: skip
    messages = conversation("openai-chat", "Find the fault.", [*turns, Turn(text="Found.")])
    long = RecordedSession(
        id="long", source="t", format="openai-chat", messages=messages, model="gpt-5"
    ).set_collection("toys")
    found = ablate([long, recorded_session()], data.load_policy("balanced"), [".10"], one_by_one)
    rows = {row["variant"]: row for row in found["rows"]}
    assert found["sessions"] == 1
    assert rows["output-whole"]["tokens_change"]["value"] > 0.1, "first sight shortens this session's output"
    assert set(rows) == set(list_variants(data.load_policy("balanced")))
    assert not any(row["faults"] for row in found["rows"])
    with pytest.raises(SessionError, match="20 rounds"):
        ablate([recorded_session()], data.load_policy("balanced"), [".10"], one_by_one)
    (tmp_path / "s.json").write_text(json.dumps(messages))
    result = run_bench("ablation", str(tmp_path / "s.json"), "--prices", ".10")
    assert result.exit_code == 0
    assert "first sight leaves command output" in result.output
    assert "1 sessions of 20 rounds and more" in result.output


def test_every_variant_switches_something_off_in_balanced() -> None:
    variants = list_variants(data.load_policy("balanced"))
    named = [
        line[1:-1]
        for line in (Path(ablation.__file__).with_name("ablation.toml")).read_text(encoding="utf-8").splitlines()
        if line.startswith("[")
    ]
    assert [*variants] == ["balanced", *named]
