"""Make a value for any type of an SDK, by reading its fields."""

from __future__ import annotations

import collections.abc
import random
import types
import typing
from typing import Any

import typing_extensions as te

MAX_DEPTH = 5
_FLAGS = (te.Required, te.NotRequired, typing.Required, typing.NotRequired)


class Maker:
    """Make values from one random source; every free string is unique, and `fields` says where it stands."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.fields: dict[str, str] = {}
        """String → type and field."""

    def text(self, field: str, lines: int = 0) -> str:
        """Return a string that occurs nowhere else, of one line, or of `lines` longer ones."""
        token = f"w{len(self.fields):06d}x"
        filler = " ".join(self.rng.choices(("error", "path", "value", "the", "open", "src/a.py", "42"), k=10))
        value = "\n".join([token, *(f"{token} {n} {filler}" for n in range(lines))])
        self.fields[value] = field
        return value

    def make(self, kind: Any, field: str, depth: int = 0) -> Any:
        """Return a value of the type; optional fields are filled at random."""
        origin: Any = te.get_origin(kind)
        args = te.get_args(kind)
        if origin in (te.Annotated, *_FLAGS):
            return self.make(args[0], field, depth)
        if origin in (typing.Literal, te.Literal):
            return self.rng.choice(args)
        if origin in (typing.Union, types.UnionType):
            shown = [a for a in args if a is not type(None)]
            return self.make(self.rng.choice(shown), field, depth)
        if te.is_typeddict(kind):
            return self.fill(kind, depth=depth)
        if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
            return [self.make(args[0], field, depth + 1)]
        return self._make_plain(kind, origin, field)

    def _make_plain(self, kind: Any, origin: Any, field: str) -> Any:
        if kind is bool:
            return self.rng.random() < 0.5
        if kind in (int, float):
            return self.rng.randrange(100)
        if origin is dict or kind is dict or kind is object:
            return {"key": self.text(field)}
        return self.text(field)

    def fill(self, kind: Any, fixed: dict[str, Any] | None = None, depth: int = 0) -> dict[str, Any]:
        """Return a dict of the typed dict `kind`; `fixed` fields stand as they are."""
        made = dict(fixed or {})
        for name, hint in te.get_type_hints(kind, include_extras=True).items():
            origin: Any = te.get_origin(hint)
            required = origin in (te.Required, typing.Required)
            wanted = required or (depth < MAX_DEPTH and self.rng.random() < 0.4)
            if name not in made and wanted:
                made[name] = self.make(hint, f"{kind.__name__}.{name}", depth + 1)
        return made


def literal_of(kind: Any, field: str = "type") -> str:
    """Return the only value that a field of the typed dict may have; empty if it is free or absent."""
    hint = te.get_type_hints(kind).get(field)
    while hint is not None and te.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(a for a in te.get_args(hint) if a is not type(None))
    args = te.get_args(hint)
    return str(args[0]) if len(args) == 1 else ""
