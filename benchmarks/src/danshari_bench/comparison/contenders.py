"""Every name a comparison knows: `off`, danshari's policies, plain baselines, peers, and functions of your own."""

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
from danshari.replay.simulate import Compact, Contender, Setting
from danshari_bench.peers import PEERS
from danshari_bench.peers.baselines import BASELINES
from danshari_bench.peers.views import contender as peer_contender

OFF = Contender(name="off", about="do nothing", start=lambda _: lambda messages: messages)


def named(name: str) -> Contender:
    """Find a contender: a name, a policy file, or `FILE.py:FUNCTION` for a function from messages to messages."""
    if name == "off":
        return OFF
    for row in BASELINES:
        if row.name == name:
            return row
    for peer in PEERS:
        if peer.name == name:
            return peer_contender(peer)
    if ".py:" in name:
        return own(name)
    try:
        return replay.contender(name, name=Path(name).stem if name.endswith(".toml") else name)
    except PolicyError as error:
        if name.endswith(".toml"):
            raise
        known = ["off", *data.policy_names(), *(b.name for b in BASELINES), *(p.name for p in PEERS)]
        raise ArgumentError(f"unknown contender {name!r}; known: {', '.join(known)}, or FILE.py:FUNCTION") from error


@cache
def own(spec: str) -> Contender:
    """Load `FILE.py:NAME`: a function messages → messages, or a class whose instances are such functions.

    A class is started anew for every session, so it may keep state. The file's `FORMAT` says which wire format it
    takes (default: chat completions). Raises ArgumentError for a file that cannot be loaded or lacks the name.
    """
    module, name = loaded(spec)
    made: Any = getattr(module, name)

    def start(_: Setting) -> Compact:
        function: Callable[[list[Any]], Sequence[Any]] = made() if isinstance(made, type) else made
        return unshared(function)

    return Contender(
        name=spec,
        about=(made.__doc__ or spec).strip().split("\n")[0],
        start=start,
        format=str(getattr(module, "FORMAT", "openai-chat")),
        version=Path(spec.rpartition(":")[0]).read_text(encoding="utf-8"),
    )


def loaded(spec: str) -> tuple[ModuleType, str]:
    """Import the file of `FILE.py:NAME` and make sure that it holds the name."""
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


def unshared(function: Callable[[list[Any]], Sequence[Any]]) -> Compact:
    """Hand out copies, and give back the originals of what came back unchanged: a function may write into its own."""

    def compact(messages: list[Any]) -> Sequence[Any]:
        given = [copied(m) for m in messages]
        places = {id(copy): n for n, copy in enumerate(given)}
        view = function(given)
        if not isinstance(view, Sequence) or isinstance(view, str):
            return view
        back = [places.get(id(m)) for m in view]
        return [messages[n] if n is not None and m == messages[n] else m for n, m in zip(back, view, strict=True)]

    return compact


def copied(value: Any) -> Any:
    """Copy a JSON value; texts are shared."""
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    return [copied(v) for v in value] if isinstance(value, list) else value
