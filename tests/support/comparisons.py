"""Small recorded sessions, toy peers and the commands of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from danshari_bench.peers import Peer

from danshari.cli import cli
from danshari.core.pricing import Prices
from danshari.errors import DanshariError
from danshari.formats import find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari.replay.references import find_needs
from danshari.replay.simulate import ContenderSetting
from danshari.sessions import RecordedSession, read
from danshari.testing import Call, Turn, conversation

TOY_PEERS = "tests.support.toy_peers"


def one_by_one(work: Callable[[Any], Any], jobs: Sequence[Any], description: str) -> list[Any]:
    return [work(job) for job in jobs]


def recorded_session(name: str = "s", rounds: int = 5) -> RecordedSession:
    turns = [
        Turn(
            calls=(
                Call(name="Bash", arguments={"command": f"tail part_{n}.log"}, result=f"see part_{n + 1}.log\n" * 40),
            )
        )
        for n in range(rounds)
    ]
    messages = conversation("openai-chat", "Find the fault.", [*turns, Turn(text="Found.")])
    return RecordedSession(id=name, source="t", format="openai-chat", messages=messages, model="gpt-5").set_collection(
        "toys"
    )


def first_rounds(path: Path, rounds: int) -> RecordedSession:
    """The first rounds of a recorded session."""
    session = next(iter(read(path))).set_collection("bundled")
    cuts = list(request_boundaries(session, find_format(session.format)))
    return replace(session, messages=session.messages[: cuts[rounds]])


def run_bench(*arguments: str) -> Result:
    """Run a command as `main` does: danshari's own errors are one line and exit code 1."""
    result = CliRunner().invoke(cli, ["bench", *arguments])
    if isinstance(result.exception, DanshariError):
        result.output_bytes += str(result.exception).encode()
    elif result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def contender_setting() -> ContenderSetting:
    made = find_needs(recorded_session())
    return ContenderSetting(format="openai-chat", model="gpt-5", prices=Prices(), needs=made)


def toy_peer(start: str) -> Peer:
    return Peer(name=f"toy-{start}", about="", module=TOY_PEERS, start=start)
