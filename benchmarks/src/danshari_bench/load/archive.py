"""Load tests of the archive: puts and searches per second, sizes, killed writers, concurrent processes."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from danshari.archive import maintenance as keeping
from danshari.archive.base import Entry, Filters
from danshari.archive.sqlite import SqliteArchive
from danshari.core.items import Digest, hash_strings

_VERBS = ("load", "save", "parse", "merge", "split", "check", "build", "fetch", "write", "close", "open", "flush")
_NOUNS = (
    "ledger",
    "invoice",
    "session",
    "channel",
    "replica",
    "metric",
    "branch",
    "commit",
    "shard",
    "token",
    "worker",
)
_BATCH = 200
SESSION_ORIGINALS = 300
"""Originals of one made-up session."""


def make_test_entry(number: int) -> Entry:
    """Make a test original of about 1.5 KB with code, log lines and a unique identifier.

    The same number always gives the same entry.
    """
    draw = random.Random(number)
    lines = [f"// run_{number}: {draw.choice(_VERBS)}{draw.choice(_NOUNS).title()}{number % 4999}"]
    for _ in range(26):
        verb, noun = draw.choice(_VERBS), draw.choice(_NOUNS)
        lines.append(f"    {verb}_{noun}({noun}, {draw.randrange(100)});  // {draw.choice(_VERBS)}{noun.title()} next")
    lines.append(
        f"2026-11-{draw.randrange(1, 31):02d} ERROR {draw.choice(_NOUNS)} mismatch code={draw.randrange(90_000)}"
    )
    text = "\n".join(lines)
    return Entry(
        digest=Digest(hash_strings(text, str(number))), text=text, name=draw.choice(["Read", "Bash", "Grep"]),
        label=f"src/{draw.choice(_NOUNS)}/mod{number % 7000}.py", path=f"src/{number % 77}/mod{number % 7000}.py",
        turn=number % SESSION_ORIGINALS, session=f"s{number // SESSION_ORIGINALS}", project=f"p{number // 30_000}",
        tier=draw.choice(["evidence", "process", "transient"]), at=1.7e9 + number,
    )  # fmt: skip


def make_queries(count: int, size: int) -> list[str]:
    """Make `count` searches like those agents write: identifiers, paths, error texts and common words."""
    draw = random.Random(7)
    found = []
    for n in range(count):
        verb, noun = draw.choice(_VERBS), draw.choice(_NOUNS)
        made = [
            f"run_{draw.randrange(size)}",
            f"mod{draw.randrange(7000)}.py",
            f"{noun} mismatch code={draw.randrange(90_000)}",
            f"{verb}_{noun} {draw.choice(_VERBS)}_{draw.choice(_NOUNS)}",
            f"{verb}{noun.title()}{draw.randrange(4999)}",
        ]
        found.append(made[n % len(made)])
    return found


def measure_archive(size: int, folder: Path, tell: Callable[[int], None], *, searches: int = 200) -> dict[str, Any]:
    """Fill an archive with `size` originals, search it, and return the figures (times in milliseconds)."""
    path = folder / "bench.db"
    archive = SqliteArchive(path)
    spent = 0.0
    for start in range(0, size, _BATCH):
        batch = [make_test_entry(n) for n in range(start, min(size, start + _BATCH))]
        begun = time.perf_counter()
        archive.put(batch)
        spent += time.perf_counter() - begun
        tell(len(batch))
    everywhere = _time_calls(lambda q: archive.search(q), make_queries(searches, size))
    inside = _time_calls(lambda q: archive.search(q, filters=Filters(session="s0")), make_queries(searches, size))
    gets = _time_calls(lambda q: archive.get(q), [make_test_entry(n * size // 50).digest[:12] for n in range(50)])
    found = sum(
        any(p.entry.digest == make_test_entry(n).digest for p in archive.search(f"run_{n}"))
        for n in range(0, size, max(size // 50, 1))
    )
    disk = sum(p.stat().st_size for p in folder.glob("bench.db*"))
    text = keeping.archive_statistics(archive)["text_bytes"]
    archive.close()
    return {
        "originals": size, "puts_per_second": size / spent, "search_ms": everywhere, "search_session_ms": inside,
        "get_ms": gets, "exact_found": [found, len(range(0, size, max(size // 50, 1)))], "text_mb": text / 1e6,
        "disk_mb": disk / 1e6,
    }  # fmt: skip


def _time_calls(work: Callable[[str], object], asked: Sequence[str]) -> dict[str, float]:
    spent = []
    for query in asked:
        begun = time.perf_counter()
        work(query)
        spent.append(1000 * (time.perf_counter() - begun))
    spent.sort()
    return {"p50": statistics.median(spent), "p95": spent[int(0.95 * len(spent))], "max": spent[-1], "n": len(spent)}


# ── kills and crowds ─────────────────────────────────────────────────────────────────────────────────────────────


def _write_until_killed(path: str, told: str, first: int) -> None:
    """Put originals in batches of five and log their digests after each commit, until the process is killed."""
    archive = SqliteArchive(path)
    with Path(told).open("a", encoding="ascii", buffering=1) as said:
        number = first
        while True:
            batch = [make_test_entry(number + n) for n in range(5)]
            archive.put(batch)
            said.write("".join(f"{entry.digest}\n" for entry in batch))
            number += 5


def kill_writers(times: int, tell: Callable[[int], None]) -> dict[str, Any]:
    """Kill a writing process `times` times at random moments and count committed originals that are missing."""
    draw = random.Random(11)
    context: Any = multiprocessing.get_context("spawn" if os.name == "nt" else "fork")
    with tempfile.TemporaryDirectory() as folder:
        path, told = f"{folder}/kill.db", f"{folder}/said"
        Path(told).touch()
        for n in range(times):
            process = context.Process(target=_write_until_killed, args=(path, told, n * 100_000), daemon=True)
            process.start()
            time.sleep(draw.uniform(0.01, 0.15))
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            tell(1)
        archive = SqliteArchive(path)
        said = [line for line in Path(told).read_text("ascii").split("\n") if len(line) == 32]
        missing = sum(not _is_stored(archive, digest) for digest in said)
        problems = [*archive.notes, *keeping.verify_archive(archive)]
        archive.close()
    return {"kills": times, "committed": len(said), "missing": missing, "problems": problems}


def _is_stored(archive: SqliteArchive, digest: str) -> bool:
    try:
        return bool(archive.get(digest).text)
    except LookupError:
        return False


def _write_and_search(path: str, first: int, count: int) -> None:
    archive = SqliteArchive(path)
    for start in range(first, first + count, 10):
        archive.put([make_test_entry(n) for n in range(start, start + 10)])
        archive.search(f"run_{start}")
    archive.close()


def run_concurrent_writers(processes: int, each: int) -> dict[str, Any]:
    """Let several processes write to and search one archive at the same time; `each` is originals per process."""
    context: Any = multiprocessing.get_context("spawn" if os.name == "nt" else "fork")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/crowd.db"
        begun = time.perf_counter()
        workers = [context.Process(target=_write_and_search, args=(path, n * 100_000, each)) for n in range(processes)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        spent = time.perf_counter() - begun
        archive = SqliteArchive(path)
        found, problems = len(archive), keeping.verify_archive(archive)
        archive.close()
    failed = sum(worker.exitcode != 0 for worker in workers)
    return {
        "processes": processes, "written": found, "expected": processes * each, "failed": failed, "problems": problems,
        "puts_per_second": found / spent,
    }  # fmt: skip
