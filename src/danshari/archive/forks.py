"""SQLite connections and forks: none may cross one, so archives close theirs before and open another after it."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class _Forkable(Protocol):
    def release_for_fork(self) -> None: ...

    def resume_after_fork(self, *, child: bool) -> None: ...


_OPEN: weakref.WeakSet[_Forkable] = weakref.WeakSet()
_HELD: list[_Forkable] = []
"""Archives whose lock the fork that is under way holds."""


def _before_fork() -> None:
    for archive in list(_OPEN):
        archive.release_for_fork()
        _HELD.append(archive)


def _after_fork(*, child: bool) -> None:
    while _HELD:
        _HELD.pop().resume_after_fork(child=child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )


def close_before_forks(archive: _Forkable) -> None:
    """Have an archive close its connection before each fork of this process, for as long as it lives."""
    _OPEN.add(archive)
