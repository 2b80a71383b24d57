"""Look up contenders by name: `off`, danshari's policies, baselines, peers and your own functions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from danshari import data
from danshari.errors import ArgumentError, PolicyError
from danshari.replay import replay
from danshari.replay.simulate import CompactFunction, Contender, ContenderSetting
from danshari_bench.peers import PEERS
from danshari_bench.peers.baselines import BASELINES
from danshari_bench.peers.views import make_peer_contender as peer_contender

OFF_CONTENDER = Contender(name="off", about="do nothing", start=lambda _: lambda messages: messages)


def find_contender(name: str) -> Contender:
    """Return a contender by name, policy file or `FILE.py:FUNCTION`. Raises ArgumentError if it is unknown."""
    if name == "off":
        return OFF_CONTENDER
    for row in BASELINES:
        if row.name == name:
            return row
    for peer in PEERS:
        if peer.name == name:
            return peer_contender(peer)
    if ".py:" in name:
        return load_own_contender(name)
    try:
        return replay.policy_contender(name, name=Path(name).stem if name.endswith(".toml") else name)
    except PolicyError as error:
        if name.endswith(".toml"):
            raise
        known = ["off", *data.policy_names(), *(b.name for b in BASELINES), *(p.name for p in PEERS)]
        raise ArgumentError(f"unknown contender {name!r}; known: {', '.join(known)}, or FILE.py:FUNCTION") from error


@cache
def load_own_contender(spec: str) -> Contender:
    """Load `FILE.py:NAME`: a function from messages to messages, or a class whose instances are such functions.

    A class is instantiated for every session, so it may keep state. The file's `FORMAT` names the wire
    format it takes (default: chat completions). Raises ArgumentError if the file cannot be loaded or
    lacks the name.
    """
    module, name = import_contender_file(spec)
    made: Any = getattr(module, name)

    def start(_: ContenderSetting) -> CompactFunction:
        function: Callable[[list[Any]], Sequence[Any]] = made() if isinstance(made, type) else made
        return wrap_with_copies(function)

    return Contender(
        name=spec,
        about=(made.__doc__ or spec).strip().split("\n")[0],
        start=start,
        format=str(getattr(module, "FORMAT", "openai-chat")),
        version=Path(spec.rpartition(":")[0]).read_text(encoding="utf-8"),
    )


def import_contender_file(spec: str) -> tuple[ModuleType, str]:
    """Import the file of `FILE.py:NAME` and return the module and the name.

    Raises ArgumentError if the file cannot be loaded or has no callable of that name.
    """
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ArgumentError(f"{file}: no such file")
    found = importlib.util.spec_from_file_location(f"danshari_own_{path.stem}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses and pickling look their module up
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(getattr(module, name, None)):
        offered = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise ArgumentError(f"{file} has no function {name!r}; it has {', '.join(offered) or 'none'}")
    return module, name


def wrap_with_copies(function: Callable[[list[Any]], Sequence[Any]]) -> CompactFunction:
    """Wrap a function so that it gets copies of the messages, because it may change them.

    Messages that come back unchanged are replaced by the originals.
    """

    def compact(messages: list[Any]) -> Sequence[Any]:
        given = [copy_json(m) for m in messages]
        places = {id(copy): n for n, copy in enumerate(given)}
        view = function(given)
        if not isinstance(view, Sequence) or isinstance(view, str):
            return view
        back = [places.get(id(m)) for m in view]
        return [messages[n] if n is not None and m == messages[n] else m for n, m in zip(back, view, strict=True)]

    return compact


def copy_json(value: Any) -> Any:
    """Copy a JSON value; strings are shared."""
    if isinstance(value, dict):
        return {k: copy_json(v) for k, v in value.items()}
    return [copy_json(v) for v in value] if isinstance(value, list) else value
