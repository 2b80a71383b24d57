"""Asks a peer's worker for its views of a session, within a time limit, and remembers them by version."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from danshari.replay.simulate import Compact, Contender, Setting
from danshari_bench.comparison.cache import Store, cache_home, digest
from danshari_bench.peers import Peer
from danshari_bench.peers.environment import SOURCES, Environment, isolated

LIMIT = 120.0
"""Seconds a peer may take for one session."""
PATIENCE = 3
"""Time-outs after which a peer is not asked again in this run."""
VIEWS = 2
"""Format number of stored views: raise it when the worker answers otherwise."""
SEARCHED: tuple[str, ...] = ()
"""Folders that workers search for modules besides danshari's own."""


class Worker:
    """One running interpreter of a peer; started again after it hung or died."""

    def __init__(self, python: Path | str, *, limit: float = LIMIT) -> None:
        self._python, self.limit = str(python), limit
        self.timeouts: Counter[str] = Counter()
        self._process: subprocess.Popen[bytes] | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._errors: IO[bytes] | None = None

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Send one job and wait for its answer; what goes wrong is an answer with `broken`.

        After three time-outs of one function it is not asked again.
        """
        what = f"{job.get('module')}.{job.get('start')}"
        if self.timeouts[what] >= PATIENCE:
            return {"broken": f"gave no answer {PATIENCE} times within {self.limit:.0f} seconds (the time limit)"}
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process)
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if line is None:
            self.timeouts[what] += 1
            self.stop()
            return {"broken": f"no answer within {self.limit:.0f} seconds (the time limit)"}
        if not line:
            said = self._last_words()
            self.stop()
            return {"broken": f"the process ended: {said}"}
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            self.stop()
            return {"broken": f"printed garbage instead of an answer: {line[:80]!r}"}
        return value

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._home = tempfile.TemporaryDirectory(prefix="danshari-peer-")
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
            environ = {
                "PATH": os.environ.get("PATH", ""),
                "HOME": self._home.name,
                "PYTHONPATH": os.pathsep.join([*SOURCES, *SEARCHED]),
                "PYTHONHASHSEED": "0",
                "TIKTOKEN_CACHE_DIR": ranks(Path(self._python)),
            }
            self._process = subprocess.Popen(
                isolated([self._python, "-m", "danshari_bench.peers.worker"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environ,
                cwd=self._home.name,
                start_new_session=True,
            )
        return self._process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """Read one line; None when time is up."""
        assert process.stdout is not None
        until, got = time.monotonic() + self.limit, bytearray()
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            while not got.endswith(b"\n"):
                left = until - time.monotonic()
                if left <= 0 or not waiting.select(left):
                    return None
                piece = os.read(process.stdout.fileno(), 1 << 20)
                if not piece:
                    return bytes(got)
                got += piece
        return bytes(got)

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "without a word"

    def stop(self) -> None:
        """End the interpreter."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
                os.killpg(self._process.pid, signal.SIGKILL)  # the children too
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process = None
        if self._home is not None:
            self._home.cleanup()
            self._home = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def ranks(python: Path) -> str:
    """Find tokenizer files that some package ships, so that peers which count with tiktoken run offline."""
    for file in python.parent.parent.glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers"):
        return str(file)
    return ""


_workers: dict[str, Worker] = {}


def views_of(peer: Peer, setting: Setting, store: Store | None = None) -> dict[str, Any]:
    """Get a peer's views of a session, from the store where they were made before."""
    store = store or Store(cache_home() / "views")
    file = Path(__file__).parent / f"{peer.module.rsplit('.', 1)[-1]}.py"
    adapter = file.read_text(encoding="utf-8") if file.is_file() else peer.module
    messages, cuts = setting.needs.session.messages, [r.cut for r in setting.needs.rounds]
    key = digest(VIEWS, peer.name, peer.requires, peer.start, adapter, setting.budget, messages, cuts)
    found = store.get(key)
    if found is None:
        environment = Environment(peer.environment, peer.requires)
        python = str(environment.python) if peer.requires else sys.executable
        worker = _workers.setdefault(python, Worker(python))
        module = peer.module if "." in peer.module else f"danshari_bench.peers.{peer.module}"
        job = {"module": module, "start": peer.start, "budget": setting.budget, "messages": messages, "cuts": cuts}
        found = worker.ask(job)
        if "broken" not in found:  # what may go better next time is asked again
            store.put(key, found)
    return dict(found)


def contender(peer: Peer) -> Contender:
    """Make a contender that shows what the peer answered."""

    def start(setting: Setting) -> Compact:
        found = views_of(peer, setting)
        if "broken" in found:
            raise RuntimeError(found["broken"])
        setting.faults += [f"request {number}: {text}" for number, text in found["faults"]]
        setting.calls += [tuple(call) for call in found["calls"]]
        pool = [*setting.needs.session.messages, *found["new"]]
        views = iter(found["views"])

        def compact(_: list[Any]) -> Sequence[Any]:
            return [pool[n] for n in next(views)]

        return compact

    version = ", ".join(peer.requires)
    return Contender(
        name=peer.name,
        about=peer.about,
        start=start,
        format="openai-chat",
        budgeted=peer.budgeted,
        version=version,
    )
