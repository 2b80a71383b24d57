"""The API reference page: public names in groups, with signatures, docstrings, fields and defaults as one types them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import danshari

GROUPS: dict[str, tuple[str, ...]] = {
    "Entry points": ("compact", "Compactor", "convert"),
    "Results": ("Compaction",),
    "Archive": ("open_archive", "Entry", "Passage", "Filters"),
    "Summarizers": ("Summarizer", "endpoint", "provider", "Request", "Reply"),
    "Hand-over": ("handover", "handover_text", "Handover"),
    "Values": ("Policy", "Prices"),
}
"""Heading → public names, in the order in which a reader needs them. Errors follow by themselves."""
NEIGHBOURS = {
    "HeldProposal": "danshari.compaction",
    "Refusal": "danshari.planning.laws",
    "Signals": "danshari.analysis.signals",
    "Rung": "danshari.handovers.ladder",
    "Survival": "danshari.handovers.survival",
    "Point": "danshari.core.handover",
    "Conversion": "danshari.formats",
    "ModelInfo": "danshari.core.pricing",
    "Archive": "danshari.archive.base",
    "Pass": "danshari.passes",
    "Proposal": "danshari.planning.proposal",
}
"""Values that public names take or give: name → the module it is imported from."""
_WIDTH = 100
"""Characters up to which a signature stands on one line."""
_MAX_CHOICES = 6
"""Values up to which an alias of choices is written out."""


def api_page() -> str:
    """Return the page of public names, by groups."""
    parts = [
        "# API\n",
        "Everything that can be imported from `danshari`. Names that are not on this page are internal.\n",
    ]
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}\n")
        parts += [_section(name, getattr(danshari, name)) for name in names]
    parts += ["## Errors\n", "All errors derive from `DanshariError`. [The errors](errors.md) explains them.\n"]
    parts += [f"- `{name}`: {_first_sentence(value)}" for name, value in _errors()]
    parts += ["\n## Values inside results and arguments\n"]
    parts.append("These are imported from the modules named here.\n")
    parts += [_section(name, getattr(import_module(module), name), module) for name, module in NEIGHBOURS.items()]
    return "\n".join(parts).rstrip("\n") + "\n"


def undocumented_names() -> list[str]:
    """Return public names that stand in no group."""
    shown = {name for names in GROUPS.values() for name in names} | {name for name, _ in _errors()}
    return [name for name in danshari.__all__ if name not in shown and name != "__version__"]


def _errors() -> list[tuple[str, type]]:
    named = [(name, getattr(danshari, name)) for name in danshari.__all__]
    return [(name, value) for name, value in named if inspect.isclass(value) and issubclass(value, Exception)]


def _section(name: str, value: Any, module: str = "") -> str:
    """Return the section of one function or class."""
    lines = [f"### `{name}`\n"]
    if inspect.isfunction(value):
        return "\n".join([*lines, _signature_block(name, value), f"{inspect.getdoc(value)}\n"])
    if module:
        lines.append(f"`from {module} import {name}`\n")
    has_fields = dataclasses.is_dataclass(value) or hasattr(value, "_field_defaults")
    if not has_fields and not getattr(value, "_is_protocol", False):
        lines.append(_signature_block(name, value))
    lines.append(f"{inspect.getdoc(value)}\n")
    if name == "Policy":
        lines.append("All fields, by group: [policy fields](policy.md).\n")
    elif has_fields:
        lines += [*_field_lines(value), ""]
    methods = list(_method_lines(value))
    return "\n".join([*lines, *methods, ""] if methods else lines)


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _field_lines(value: Any) -> Iterator[str]:
    """Yield a line per field: name, type, default, and the text below it in the source."""
    texts = _attribute_texts(value)
    for name, hint, default in _fields_of(value):
        shown = f"`{name}: {_expand(hint, value)}{default}`"
        yield f"- {shown}: {texts[name]}" if texts.get(name) else f"- {shown}"


def _fields_of(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and ` = default` of every field of a dataclass or a named tuple."""
    if not dataclasses.is_dataclass(value):
        for name in value._fields:
            hint = value.__annotations__[name]
            known = name in value._field_defaults
            yield name, _hint_text(hint), f" = {_typed(value._field_defaults[name])}" if known else ""
        return
    for field in dataclasses.fields(value):
        default = ""
        if field.default is not dataclasses.MISSING:
            default = f" = {_typed(field.default)}"
        elif field.default_factory is not dataclasses.MISSING:
            default = f" = {_typed(field.default_factory())}"
        yield field.name, _hint_text(field.type), default


def _attribute_texts(value: type) -> Mapping[str, str]:
    """Return the string literals under the fields of a class."""
    tree = _module_tree(value.__module__)
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == value.__name__)
    texts = {}
    for node, below in zip(found.body, found.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                texts[node.target.id] = _one_line(text)
    return texts


@cache
def _module_tree(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[name]))


# ── methods and signatures ───────────────────────────────────────────────────────────────────────────────────────


def _method_lines(value: type) -> Iterator[str]:
    """Yield a line per documented property and method."""
    for name, inner in vars(value).items():
        text = inspect.getdoc(inner)
        if name.startswith("_") or not text:
            continue
        if isinstance(inner, property):
            yield f"- **`.{name}`** {_one_line(text)}"
        elif inspect.isfunction(inner):
            yield f"- **`.{_signature(name, inner)}`** {_one_line(text)}"


def _signature_block(name: str, value: Any) -> str:
    """Return a signature as a block of code, one parameter a line where it is long."""
    short = _signature(name, value)
    if len(short) > _WIDTH:
        gives = short[short.rindex(") ->") :] if ") ->" in short else ")"
        short = "\n".join([f"{name}(", *(f"    {part}," for part in _parameters(value)), gives])
    return f"```text\n{short}\n```\n"


def _signature(name: str, value: Any) -> str:
    gives = inspect.signature(value).return_annotation
    shown = "" if inspect.isclass(value) or gives is inspect.Signature.empty else f" -> {_hint_text(gives)}"
    return f"{name}({', '.join(_parameters(value))}){shown}"


def _parameters(value: Callable[..., Any]) -> list[str]:
    """Return the parameters as one would write them, without `self`."""
    parts: list[str] = []
    named = False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            parts.append("*")
        named = named or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        star = "*" * ((parameter.kind is parameter.VAR_POSITIONAL) + 2 * (parameter.kind is parameter.VAR_KEYWORD))
        owner = value.__init__ if inspect.isclass(value) else value
        hint = _expand(_hint_text(parameter.annotation), owner)
        default = "" if parameter.default is parameter.empty else f" = {_typed(parameter.default)}"
        parts.append(f"{star}{parameter.name}: {hint}{default}")
    return parts


# ── values as they are typed ─────────────────────────────────────────────────────────────────────────────────────


def _hint_text(hint: Any) -> str:
    hint = getattr(hint, "__forward_arg__", hint)
    return (hint if isinstance(hint, str) else inspect.formatannotation(hint)).replace("danshari.", "")


def _expand(hint: str, owner: Any) -> str:
    """Return a type with an alias written out where it is a choice of a few values, such as `Mode`."""
    alias = vars(sys.modules[owner.__module__]).get(hint)
    choices = [alias] if get_origin(alias) is Literal else list(get_args(alias)) if _is_union(alias) else []
    values = [value for choice in choices if get_origin(choice) is Literal for value in get_args(choice)]
    return " | ".join(map(_choice_text, choices)) if 0 < len(values) <= _MAX_CHOICES else hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _choice_text(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(hint)))}]"
    return "None" if hint is type(None) else _hint_text(hint)


def _typed(value: Any) -> str:
    """Return a default as one would type it: `'balanced'`, `time.time`, `Filters()`."""
    if inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        try:
            bare = type(value)()
        except TypeError:
            return repr(value)
        changed = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
        given = [f"{n}={_typed(v)}" for n, v in changed if v != getattr(bare, n)]
        return f"{type(value).__name__}({', '.join(given)})"
    return repr(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _first_sentence(value: type) -> str:
    return _one_line((inspect.getdoc(value) or "").split("\n\n")[0])
