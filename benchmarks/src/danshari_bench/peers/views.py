"""Get a peer's views of a session from its worker process, with a time limit and a cache on disk."""

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

from danshari.replay.simulate import CompactFunction, Contender, ContenderSetting
from danshari_bench.comparison.cache import ResultStore, cache_folder, hash_json
from danshari_bench.peers import Peer
from danshari_bench.peers.environment import SOURCES, Environment, wrap_without_network

SESSION_TIMEOUT = 120.0
"""Seconds a peer may take for one session."""
MAX_TIMEOUTS = 3
"""Time-outs after which a peer is not asked again in this run."""
VIEWS_FORMAT = 2
"""Format number of stored views: raise it when the worker answers otherwise."""
EXTRA_FOLDERS: tuple[str, ...] = ()
"""Folders that workers search for modules besides danshari's own."""


class PeerWorker:
    """The worker process of one peer; restarted after it hung or died."""

    def __init__(self, python: Path | str, *, limit: float = SESSION_TIMEOUT) -> None:
        self._python, self.limit = str(python), limit
        self.timeouts: Counter[str] = Counter()
        self._process: subprocess.Popen[bytes] | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._errors: IO[bytes] | None = None

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Send one job and return its result; a failure is a result with `broken`.

        After three time-outs of one function the job is not sent again.
        """
        what = f"{job.get('module')}.{job.get('start')}"
        if self.timeouts[what] >= MAX_TIMEOUTS:
            return {"broken": f"gave no answer {MAX_TIMEOUTS} times within {self.limit:.0f} seconds (the time limit)"}
        process = self._ensure_process()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process)
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if line is None:
            self.timeouts[what] += 1
            self.stop()
            return {"broken": f"no answer within {self.limit:.0f} seconds (the time limit)"}
        if not line:
            said = self._last_error_line()
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

    def _ensure_process(self) -> subprocess.Popen[bytes]:
        """Return the worker process, starting it without network and with an empty home folder if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._home = tempfile.TemporaryDirectory(prefix="danshari-peer-")
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
            environ = {
                "PATH": os.environ.get("PATH", ""),
                "HOME": self._home.name,
                "PYTHONPATH": os.pathsep.join([*SOURCES, *EXTRA_FOLDERS]),
                "PYTHONHASHSEED": "0",
                "TIKTOKEN_CACHE_DIR": tokenizer_folder(Path(self._python)),
            }
            self._process = subprocess.Popen(
                wrap_without_network([self._python, "-m", "danshari_bench.peers.worker"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environ,
                cwd=self._home.name,
                start_new_session=True,
            )
        return self._process

    def _read_line(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """Read one line; return None after the time limit."""
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

    def _last_error_line(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "without a word"

    def stop(self) -> None:
        """Kill the process and its children and clean up."""
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


def tokenizer_folder(python: Path) -> str:
    """Return the folder of tokenizer files that litellm ships, so that tiktoken works offline; empty if none."""
    for file in python.parent.parent.glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers"):
        return str(file)
    return ""


_workers: dict[str, PeerWorker] = {}


def fetch_views(peer: Peer, setting: ContenderSetting, store: ResultStore | None = None) -> dict[str, Any]:
    """Return a peer's views of a session, from the cache if they were made before."""
    store = store or ResultStore(cache_folder() / "views")
    file = Path(__file__).parent / f"{peer.module.rsplit('.', 1)[-1]}.py"
    adapter = file.read_text(encoding="utf-8") if file.is_file() else peer.module
    messages, cuts = setting.needs.session.messages, [r.cut for r in setting.needs.rounds]
    key = hash_json(VIEWS_FORMAT, peer.name, peer.requires, peer.start, adapter, setting.budget, messages, cuts)
    found = store.get(key)
    if found is None:
        environment = Environment(peer.environment, peer.requires)
        python = str(environment.python) if peer.requires else sys.executable
        worker = _workers.setdefault(python, PeerWorker(python))
        module = peer.module if "." in peer.module else f"danshari_bench.peers.{peer.module}"
        job = {"module": module, "start": peer.start, "budget": setting.budget, "messages": messages, "cuts": cuts}
        found = worker.ask(job)
        if "broken" not in found:  # what may go better next time is asked again
            store.put(key, found)
    return dict(found)


def make_peer_contender(peer: Peer) -> Contender:
    """Return a contender that sends the views of a peer."""

    def start(setting: ContenderSetting) -> CompactFunction:
        """Fetch the views of one session and return a function that returns them in order."""
        found = fetch_views(peer, setting)
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
