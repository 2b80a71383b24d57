"""Waiting for what another thread or process brings about, without a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 30.0
"""Seconds after which something that should have happened counts as never happening, on a busy machine too."""
_BETWEEN_LOOKS = threading.Event()


def wait_until(predicate: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Look again and again until `predicate` holds; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < end, "it did not come to pass"
        _BETWEEN_LOOKS.wait(0.01)


class HeldSummarizer:
    """A summarizer that tells when it was asked and answers only once it is released."""

    def __init__(self, answer: str = "") -> None:
        self.answer = answer
        self.asked, self.released, self.answered = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, request: Any) -> str:
        self.asked.set()
        self.released.wait()
        self.answered.set()
        return self.answer
