"""A proxy before a scripted upstream; connections are closed after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.proxy import OPEN, Pair, make_pair


@pytest.fixture(autouse=True)
def close_connections() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from make_pair()
