"""Every name a comparison knows: `off`, danshari's policies, plain baselines, peers, and functions of your own."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from danshari import data
from danshari.bench import replay
from danshari.bench.peers import PEERS
from danshari.bench.peers.baselines import BASELINES
from danshari.bench.peers.views import contender as peer_contender
from danshari.bench.play import Compact, Contender, Setting
from danshari.errors import ArgumentError, PolicyError

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


def own(spec: str) -> Contender:
    """Load `FILE.py:NAME`: a function messages → messages, or a class whose instances are such functions.

    A class is started anew for every session, so it may keep state. The file's `FORMAT` says which wire format it
    takes (default: chat completions).
    """
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ArgumentError(f"{file}: no such file")
    loaded = importlib.util.spec_from_file_location(path.stem, path)
    assert loaded is not None
    assert loaded.loader is not None
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    made: Any = getattr(module, name, None)
    if not callable(made):
        offered = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise ArgumentError(f"{file} has no function {name!r}; it has {', '.join(offered) or 'none'}")

    def start(_: Setting) -> Compact:
        function: Callable[[list[Any]], Sequence[Any]] = made() if isinstance(made, type) else made
        return lambda messages: function(list(messages))

    version = path.read_text(encoding="utf-8")
    return Contender(
        name=name,
        about=(made.__doc__ or spec).strip().split("\n")[0],
        start=start,
        format=str(getattr(module, "FORMAT", "openai-chat")),
        version=version,
    )
