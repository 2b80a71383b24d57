"""Every agent is told its base URL, or its user is told how; what leads past the proxy is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from danshari.data.agents import load_agent_profiles
from danshari.errors import ArgumentError
from danshari.proxy.wrap import check_wrappable, find_agent_profile, settings_that_win, upstreams_from_environment
from tests.support.proxy import body_of, make_pair

BASE = "http://127.0.0.1:1"


@pytest.mark.parametrize("agent", load_agent_profiles().values(), ids=lambda a: a.name)
def test_every_agent_is_told_its_base_url_or_its_user_is(agent: object) -> None:
    profile = find_agent_profile(getattr(agent, "command"))  # noqa: B009
    told = [*profile.environment(BASE).values(), *(a.format(base=BASE) for a in profile.arguments)]
    assert profile.file or any(BASE in text for text in told)
    assert not profile.file or "127.0.0.1:8484" in profile.file.format(base="http://127.0.0.1:8484")
    assert "{base" not in profile.file.format(base=BASE)


def test_agents_that_read_no_variable_are_refused_with_what_to_do() -> None:
    with pytest.raises(ArgumentError, match=r"run `danshari proxy` and set ~/\.pi/agent/models\.json"):
        check_wrappable(find_agent_profile("pi"))
    check_wrappable(find_agent_profile("pi", ["PI_URL={base}"]))


def test_any_other_command_is_told_by_a_variable() -> None:
    agent = find_agent_profile("/opt/bin/mine", ["MY_BASE={base}/v1", "OTHER={base}"])
    assert agent.environment(BASE) == {"MY_BASE": f"{BASE}/v1", "OTHER": BASE}
    assert find_agent_profile("qwen", ["X={base}"]).environment(BASE)["OPENAI_BASE_URL"] == f"{BASE}/v1"
    for wrong in ("X", "X=y", "1-={base}"):
        with pytest.raises(ArgumentError, match="--set"):
            find_agent_profile("mine", [wrong])


@pytest.mark.parametrize(
    ("name", "file", "text", "said"),
    [
        ("claude", ".claude/settings.json", '{"env": {"ANTHROPIC_BASE_URL": "http://x"}}', True),
        ("claude", ".claude/settings.json", '{"env": {"OTHER": "http://x"}}', False),
        ("codex", ".codex/config.toml", 'model = "m"\nmodel_provider = "mine"\n', True),
        ("codex", ".codex/config.toml", '# model_provider = "mine"\n', False),
        ("qwen", ".codex/config.toml", 'model_provider = "mine"\n', False),
    ],
)
def test_settings_that_win_are_told(tmp_path: Path, name: str, file: str, text: str, said: bool) -> None:
    place = tmp_path / file
    place.parent.mkdir()
    place.write_text(text)
    told = settings_that_win(find_agent_profile(name), tmp_path, tmp_path / "work", {})
    assert [str(place) in line for line in told] == [True] * said


def test_switches_that_lead_elsewhere_are_told(tmp_path: Path) -> None:
    agent = find_agent_profile("claude")
    assert settings_that_win(agent, tmp_path, tmp_path, {"CLAUDE_CODE_USE_BEDROCK": "0"}) == []
    (told,) = settings_that_win(agent, tmp_path, tmp_path, {"CLAUDE_CODE_USE_BEDROCK": "1"})
    assert "CLAUDE_CODE_USE_BEDROCK is set" in told


def test_an_agent_of_another_vendor_goes_there() -> None:
    assert upstreams_from_environment(find_agent_profile("grok"), {}) == {"*": "https://api.x.ai"}


def test_a_version_that_stands_twice_goes_upstream_once() -> None:
    for pair in make_pair():
        body = body_of("anthropic", [{"role": "user", "content": "hi"}])
        assert pair.client.post("/v1/v1/messages", body)[0] == 200
        assert pair.upstream.requests[-1].path == "/v1/messages"


def test_untouched_traffic_is_told_with_its_reason() -> None:
    for pair in make_pair():
        body = body_of("anthropic", [{"role": "user", "content": "hi"}])
        pair.client.post("/v1/messages", body, x_danshari="off")
        assert json.loads(pair.get("/status.json"))["untouched"] == {"switched off": 1}
        assert pair.metric("untouched_total", why="switched off") == 1
