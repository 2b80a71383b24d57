"""Index archived originals for search in the background, between requests.

A commit stores originals unindexed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Protocol

from danshari.errors import ArchiveError

QUIET_SECONDS = 0.2
"""Seconds without a request after which indexing goes on."""
MAX_DELAY_SECONDS = 5.0
"""Seconds after which it goes on in any case."""
_ORIGINALS_PER_STEP = 8
"""Originals indexed between two looks at whether requests run."""


class IndexableArchive(Protocol):
    """An archive that indexes on demand."""

    def index(self, limit: int = 0) -> int:
        """Index at most `limit` originals; return how many are left."""


class BackgroundIndexer:
    """Indexes an archive in small steps while no request runs."""

    def __init__(self, archive: object) -> None:
        self._archive: IndexableArchive | None = archive if hasattr(archive, "index") else None
        self._touched = 0.0
        self._task: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """Start indexing if it does not run, and restart the quiet period."""
        self._touched = time.monotonic()
        if self._archive is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._index_in_steps(self._archive))

    async def _index_in_steps(self, archive: IndexableArchive) -> None:
        """Index in steps, each after a quiet period, until nothing is left or the archive refuses."""
        begun, left = time.monotonic(), 1
        while left:
            while time.monotonic() - self._touched < QUIET_SECONDS and time.monotonic() - begun < MAX_DELAY_SECONDS:
                await asyncio.sleep(QUIET_SECONDS / 4)
            with contextlib.suppress(ArchiveError):
                left = await asyncio.to_thread(archive.index, _ORIGINALS_PER_STEP)
                continue
            return  # full or locked: the next search, or the next start, indexes what is left

    async def close(self) -> None:
        """Cancel indexing; the next search indexes what is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
