"""The settings of the proxy, and the agents that it can wrap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from danshari.data.agents import load_agent_profiles
from danshari.errors import ArgumentError
from danshari.proxy.settings import Settings, load_settings


def test_settings_come_from_file_environment_and_line(tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text('port = 1\npolicy = "repair"\n[upstreams]\nmine = "http://a"\n')
    found = load_settings(
        file, {"port": 3, "upstreams": {"*": "http://b"}}, {"DANSHARI_PROXY_PORT": "2", "DANSHARI_PROXY_OFF": "yes"}
    )
    assert (found.port, found.policy, found.off) == (3, "repair", True)
    assert found.upstreams == {"mine": "http://a", "*": "http://b"}
    assert load_settings(None, {}, {"DANSHARI_PROXY_UPSTREAMS": "http://c,x=http://d"}).upstreams == {
        "*": "http://c",
        "x": "http://d",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "unknown setting 'prot'"),
        ("port = 'x'", "port = 'x'; must be int"),
        ("port = 70000", "must be 0 to 65535"),
        ("recall = 'maybe'", "must be one of auto, on, off"),
        ("policy = 'nonsense'", "nonsense"),
        ("host = '0.0.0.0'", "set a token"),
        ("upstreams = 'x'", "must map names"),
        ("[upstreams]\nx = 'ftp://y'", "must begin with http"),
        ("off = 'perhaps'", "must be true or false"),
        ("largest = 0", "must be 1 or more"),
        ("port", "is no TOML file"),
    ],
)
def test_wrong_settings_are_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ArgumentError, match=re.escape(said)):
        load_settings(tmp_path / "p.toml", {}, {})


def test_every_agent_is_a_row() -> None:
    for agent in load_agent_profiles().values():
        assert agent.sets or agent.arguments or agent.file
        for text in (*agent.sets.values(), *agent.arguments):
            assert text.format(base="http://x", port="1")


def test_defaults_are_safe() -> None:
    assert Settings().host == "127.0.0.1"
    assert not Settings().is_public
