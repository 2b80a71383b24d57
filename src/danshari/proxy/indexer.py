"""Makes originals searchable while nobody waits: a commit needs the original only."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Protocol

from danshari.errors import ArchiveError

QUIET = 0.2
"""Seconds without a request after which indexing goes on."""
LATEST = 5.0
"""Seconds after which it goes on in any case."""
_STEP = 8
"""Originals indexed between two looks at whether requests run."""


class Indexed(Protocol):
    """An archive that indexes on demand."""

    def index(self, limit: int = 0) -> int:
        """Index at most `limit` originals; give how many are left."""


class Indexer:
    """Indexes in the background, in small steps, in the gaps between requests."""

    def __init__(self, archive: object) -> None:
        self._archive: Indexed | None = archive if hasattr(archive, "index") else None
        self._touched = 0.0
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Say that something was archived, or that a request runs."""
        self._touched = time.monotonic()
        if self._archive is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work(self._archive))

    async def _work(self, archive: Indexed) -> None:
        begun, left = time.monotonic(), 1
        while left:
            while time.monotonic() - self._touched < QUIET and time.monotonic() - begun < LATEST:
                await asyncio.sleep(QUIET / 4)
            with contextlib.suppress(ArchiveError):
                left = await asyncio.to_thread(archive.index, _STEP)
                continue
            return  # full or locked: the next search, or the next start, indexes what is left

    async def close(self) -> None:
        """Finish; what is left is indexed by the next search."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
