"""Credentials and content stay where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from danshari.archive import maintenance as keeping
from danshari.archive.location import open_archive
from danshari.errors import ArgumentError
from danshari.proxy.app import create_app
from danshari.proxy.settings import Settings
from tests.support.proxy import body_of, make_pair, round_by_round, work


def test_beyond_loopback_a_token_is_needed() -> None:
    with pytest.raises(ArgumentError, match="token"):
        create_app(Settings(host="0.0.0.0"))
    for pair in make_pair(token="s3cret"):
        body = body_of("anthropic", [{"role": "user", "content": "hi"}])
        assert pair.client.post("/v1/messages", body)[0] == 401
        assert pair.client.post("/v1/messages", body, x_danshari_token="wrong")[0] == 401
        assert pair.client.post("/v1/messages", body, x_danshari_token="s3cret")[0] == 200
        assert "x-danshari-token" not in pair.upstream.requests[-1].headers
        client = pair.client
        client.connection.request("GET", "/status.json")
        answer = client.connection.getresponse()
        answer.read()
        assert answer.status == 401


def test_no_credential_and_no_content_reaches_log_metrics_or_archive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Content stands in the archive, masked where the policy says so; a credential stands nowhere."""
    policy = tmp_path / "masked.toml"
    policy.write_text('extends = "balanced"\nmask_archive = true\n')
    key, secret = "sk-ant-api03-" + "Q" * 40, "ghp_" + "Z" * 36
    messages = work(12, "anthropic")
    messages[2]["content"][0]["content"] += f"\nexport TOKEN={secret}"
    with caplog.at_level("INFO", logger="danshari"):
        for pair in make_pair(archive=str(tmp_path / "a.db"), policy=str(policy)):
            round_by_round(pair, "anthropic", messages, x_api_key=key, authorization=f"Bearer {key}")
            client = pair.client
            for path in ("/metrics", "/status.json", "/"):
                client.connection.request("GET", path)
                page = client.connection.getresponse().read().decode()
                assert key not in page
                assert "module_3_7" not in page
            assert pair.app.state.sessions.all_branches()[0].totals.edits
    logged = " ".join(record.getMessage() for record in caplog.records if record.name == "danshari.proxy")
    assert '"tokens_before"' in logged
    assert key not in logged
    assert "module_3_7" not in logged
    with open_archive(tmp_path / "a.db") as archive:
        texts = "".join(keeping.export_archive(archive))
    stored = b"".join(p.read_bytes() for p in tmp_path.glob("a.db*"))
    for what in (key, secret):
        assert what not in texts
        assert what.encode() not in stored
    assert "module_3_7" in texts


def test_credentials_of_the_machine_stay_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("default login me password s3cret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for pair in make_pair():
        assert (
            pair.client.post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "a"}]), x_api_key="k")[0]
            == 200
        )
        assert "authorization" not in pair.upstream.requests[-1].headers
        assert (
            pair.client.post(
                "/v1/messages", body_of("anthropic", [{"role": "user", "content": "a"}]), authorization="Bearer k"
            )[0]
            == 200
        )
        assert pair.upstream.requests[-1].headers["authorization"] == "Bearer k"
