"""Peers that behave badly: one crashes, one hangs, one prints, one wants the network, one is honest."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any

Compact = Callable[[list[Any]], list[Any]]


def honest(budget: int | None, summarize: Callable[[str], str]) -> Compact:
    """Summarise everything but the last message once there is much."""

    def compact(messages: list[Any]) -> list[Any]:
        if len(messages) < 6:
            return messages
        return [*messages[:1], {"role": "user", "content": summarize(str(messages[1:-1]))}]

    return compact


def crash(_: int | None, __: Any) -> Compact:
    """Fail on every third request."""
    count = 0

    def compact(messages: list[Any]) -> list[Any]:
        nonlocal count
        count += 1
        if count % 3 == 0:
            raise ValueError("no idea")
        return messages

    return compact


def die(_: int | None, __: Any) -> Compact:
    """End the whole process."""
    os._exit(3)


def hang(_: int | None, __: Any) -> Compact:
    """Never answer."""

    def compact(messages: list[Any]) -> list[Any]:
        threading.Event().wait()
        return messages

    return compact


def chatter(_: int | None, __: Any) -> Compact:
    """Print to standard output, as libraries do."""
    print("hello from the library")  # noqa: T201
    os.write(1, b"and from below\n")
    return lambda messages: messages


def calls_home(_: int | None, __: Any) -> Compact:
    """Want the network."""
    socket.create_connection(("127.0.0.1", 9), timeout=1)
    return lambda messages: messages


def changes_its_input(_: int | None, __: Any) -> Compact:
    """Write into the messages it was given."""

    def compact(messages: list[Any]) -> list[Any]:
        for message in messages:
            message["content"] = "gone"
        return messages

    return compact
