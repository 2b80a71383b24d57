"""What danshari 0.1 wrote is read: saved sessions, an archive with a session, and policy files.

The files in `v0_1` were written by the last commit before the folders were rearranged: fourteen reads under `balanced`,
a forced compaction, then a major one.
"""

from __future__ import annotations

import gzip
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from danshari import Compactor, data, open_archive
from danshari.core.session import SESSION_STATE_FORMAT, SessionState, session_from_dict
from danshari.errors import VersionError
from danshari.pipeline.persist import load_stored_session

OLD = Path(__file__).parent / "v0_1"
POLICIES = sorted(OLD.glob("policy-*.toml"))


def unpack(name: str) -> bytes:
    return gzip.decompress((OLD / f"{name}.gz").read_bytes())


MESSAGES: list[Any] = json.loads(unpack("messages.json"))
VIEWS: dict[str, list[Any]] = json.loads(unpack("views.json"))


@pytest.mark.parametrize("mode", ["view", "replace"])
def test_a_saved_session_goes_on(mode: Any) -> None:
    compactor = Compactor("balanced", model="gpt-5", window=12_000, mode=mode, clock=lambda: 0.0)
    compactor.load(unpack(f"saved-{mode}.json"))
    held = MESSAGES if mode == "view" else VIEWS["replace"]
    result = compactor.compact(held)
    assert result.fault == ""
    assert result.messages == VIEWS[mode]
    assert "def f0_59(ledger)" in compactor.recall("f0_59")[0].text


def test_an_archived_session_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    path.write_bytes(unpack("archive.db"))
    with open_archive(path) as archive:
        stored = load_stored_session(archive, "work")
        assert stored is not None
        assert stored.ledger
        compactor = Compactor(
            "balanced",
            model="gpt-5",
            window=12_000,
            archive=archive,
            session="work",
            project="ledger",
            clock=lambda: 0.0,
        )
        assert compactor.compact(MESSAGES).messages == VIEWS["archive"]
        assert compactor.recall("f3_7")


@pytest.mark.parametrize("path", POLICIES, ids=lambda p: p.stem)
def test_a_policy_file_means_the_same(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        policy = data.load_policy(path)
    now = data.load_policy(path.stem.removeprefix("policy-"))
    assert replace(policy, name=now.name, mend=now.mend) == now  # that version mended nothing


def test_a_newer_session_is_refused() -> None:
    newer = {**SessionState(policy="balanced").to_dict(), "format": SESSION_STATE_FORMAT + 1}
    with pytest.raises(VersionError, match="upgrade"):
        session_from_dict(newer)
