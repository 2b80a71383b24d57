"""Worker inside a peer's environment: one JSON job per line in, one JSON result per line out, no network.

A job names the adapter module, the function that starts the peer, the chat messages and the request
boundaries. The result holds each view as indices into a list: the session's own messages first,
then new ones.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_SUMMARY = 6_000
"""Characters of a scripted summary."""
_HEAD = 600
_WORD = re.compile(r"[A-Za-z]\w*(?:[._]\w+)+|[a-z]+[A-Z]\w+|\d{4,}")


def make_summary(text: str) -> str:
    """Return a summary without a model, the same for every peer.

    It is the beginning of the text and the newest distinct lines that add a name.
    """
    kept: list[str] = []
    left = _SUMMARY - _HEAD
    seen: set[str] = set()
    for line in reversed(text[_HEAD:].split("\n")):
        line = line.strip()[:300]
        fresh = set(_WORD.findall(line)) - seen
        if fresh and len(line) < left:
            seen |= fresh
            kept.append(line)
            left -= len(line) + 1
    return "\n".join([text[:_HEAD].strip(), *reversed(kept)])


def block_network() -> None:
    """Make every connection attempt raise an error."""

    def refuse(*_: Any) -> NoReturn:
        raise OSError("benchmarks run without a network")

    for owner, name in ((socket.socket, "connect"), (socket.socket, "connect_ex"), (socket.socket, "sendto")):
        setattr(owner, name, refuse)
    setattr(socket, "getaddrinfo", refuse)  # noqa: B010  (its type knows one signature only)


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Run a peer on one session and return its views, faults, model calls and milliseconds."""
    calls: list[tuple[int, int]] = []

    def count_and_summarize(text: str) -> str:
        summary = make_summary(text)
        calls.append((len(text), len(summary)))
        return summary

    module = importlib.import_module(job["module"])
    compact: Callable[[list[Any]], Sequence[Any]] = getattr(module, job["start"])(job["budget"], count_and_summarize)
    messages = job["messages"]
    pool: dict[Any, int] = {_message_key(m): n for n, m in reversed(list(enumerate(messages)))}
    new: list[Any] = []
    views, faults, spent = [], [], []
    for number, cut in enumerate(job["cuts"], 1):
        started = time.perf_counter()
        try:
            given = [_copy_message(m) for m in messages[:cut]]
            view = list(compact(given))
        except Exception as fault:  # noqa: BLE001  (a peer's fault is a result)
            faults.append([number, f"{type(fault).__name__}: {fault}"[:300]])
            given = view = messages[:cut]
        spent.append(round(1000 * (time.perf_counter() - started), 2))
        shown = []
        places = {id(m): n for n, m in enumerate(given)}
        for message in view:
            at = places.get(id(message))
            if at is not None and message == messages[at]:
                shown.append(at)
                continue
            key = _message_key(message)
            if key not in pool:
                pool[key] = len(messages) + len(new)
                new.append(message)
            shown.append(pool[key])
        views.append(shown)
    return {"views": views, "new": new, "faults": faults, "calls": calls, "milliseconds": spent}


def _copy_message(message: Any) -> Any:
    """Copy what a peer might write to; texts are shared."""
    if isinstance(message, dict):
        return {k: _copy_message(v) for k, v in message.items()}
    return [_copy_message(v) for v in message] if isinstance(message, list) else message


def _message_key(message: Any) -> str:
    return json.dumps(message, sort_keys=True)


def main() -> None:
    """Run jobs until the input ends; output that the peer prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    block_network()
    for line in sys.stdin:
        try:
            said = run_job(json.loads(line))
        except Exception as fault:  # noqa: BLE001
            said = {"broken": f"{type(fault).__name__}: {fault}"[:500]}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
