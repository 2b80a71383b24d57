"""The one place that reads the tables beside it; everything is handed on as values. Users may override each file."""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from danshari.analysis.markers import Markers, Runner
from danshari.analysis.tools import TOOL_KINDS, ToolRow, Tools
from danshari.core.handover_markdown import Phrases
from danshari.core.line_weights import Weights, weights_from_dict
from danshari.core.policy import Policy, make_policy
from danshari.core.pricing import Model, Prices
from danshari.core.tokens import FEATURES, LITERAL, Estimator
from danshari.errors import ArgumentError, DanshariError, PolicyError

_log = logging.getLogger("danshari")
HOME_VARIABLE = "DANSHARI_HOME"
"""Environment variable naming the folder whose tools.toml, models.toml and policies/*.toml come before ours."""


def home() -> Path:
    """Give the user's folder: `$DANSHARI_HOME`, else `danshari` under the platform's configuration folder."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named)
    base = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "danshari"


def text(name: str) -> str:
    """Give one of our own tables as it stands in the package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _table(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Load the user's version of a table, if any, and then ours."""
    texts = [(f"danshari/data/{name}", text(name))]
    user = home() / name
    if user.is_file():
        texts.insert(0, (str(user), user.read_text(encoding="utf-8")))
    found = []
    for where, written in texts:
        try:
            found.append((where, tomllib.loads(written)))
        except tomllib.TOMLDecodeError as error:
            raise ArgumentError(f"{where} is no valid TOML: {error}") from None
    return found


@cache
def tools() -> Tools:
    """Load the table of tool kinds."""
    rows = []
    for where, table in _table("tools.toml"):
        for row in table.get("tool", ()):
            if row.get("kind") not in TOOL_KINDS or not row.get("match"):
                raise ArgumentError(f"{where}: a row needs `match` and a `kind` of {', '.join(TOOL_KINDS)}; got {row}")
            lists = {k: tuple(v) for k, v in row.items() if k in ("match", "path", "body", "old", "command")}
            rows.append(
                ToolRow(
                    kind=row["kind"],
                    commands=row.get("commands", {}),
                    lines=row.get("lines", 0),
                    exact=row.get("exact", True),
                    numbered=row.get("numbered", False),
                    **lists,
                )
            )
    return Tools(rows)


@cache
def _models() -> tuple[Mapping[str, Any], ...]:
    return tuple(row for _, table in _table("models.toml") for row in table.get("model", ()))


@lru_cache(maxsize=512)
def model(name: str | None) -> Model:
    """Look a model up by name; an unknown or missing name gives the conservative defaults with `known=False`."""
    short = (name or "").lower().rsplit("/", 1)[-1]
    row = next((r for r in _models() if any(fnmatchcase(short, m.lower()) for m in r["match"])), None)
    if row is None:
        return Model(name=name or "")
    base = float(row.get("input_price", 1.0)) or 1.0
    prices = Prices(
        read=float(row["read"]),
        write=float(row["write"]),
        output=float(row.get("output_price", 5 * base)) / base,
        ttl=float(row["ttl"]),
        minimum=int(row["minimum"]),
        base=base,
    )
    return Model(
        name=name or "",
        window=int(row["window"]),
        output=int(row["output"]),
        family=str(row["family"]),
        binding=bool(row["binding"]),
        known="*" not in row["match"],
        prices=prices,
        source=str(row.get("source", "")),
        checked=str(row.get("checked", "")),
    )


def model_with(name: str | Model | None, *, window: int | None, prices: Prices | None) -> Model:
    """Look a model up and put the caller's window (tokens) and prices in place of its row's; raises ArgumentError."""
    if name is not None and not isinstance(name, str | Model):
        raise ArgumentError(f"model must be a name or a Model, not {type(name).__name__}")
    row = name if isinstance(name, Model) else model(name)
    if window is not None:
        if isinstance(window, bool) or not isinstance(window, int) or window <= 0:
            raise ArgumentError(f"window = {window!r}; must be a positive number of tokens")
        row = replace(row, window=window, known=True)
    if prices is not None:
        if not isinstance(prices, Prices):
            raise ArgumentError(f"prices must be danshari.Prices, not {type(prices).__name__}")
        row = replace(row, prices=prices)
    return row


@cache
def estimator(family: str) -> Estimator:
    """Give the token estimator of a tokenizer family; `literal` is the seed's formula, unknown ones the densest."""
    if family == "literal":
        return LITERAL
    table = json.loads(text("tokens.json"))
    if table.get("features") != list(FEATURES):
        raise ArgumentError("danshari/data/tokens.json was fitted for other features; run scripts/fit_tokens.py fit")
    rows = table["families"]
    row = rows.get(family) or rows["claude-new"]
    return Estimator(family=family, row=tuple(map(float, row["row"])), call=float(row.get("call", 0)))


def families() -> tuple[str, ...]:
    """List the tokenizer families with fitted coefficients."""
    return tuple(json.loads(text("tokens.json"))["families"])


def scorer_text() -> tuple[str, str]:
    """Give the line scorer's weights as JSON text, the user's before ours, and where they stand; "" for none."""
    user = home() / "scorer.json"
    if user.is_file():
        return user.read_text(encoding="utf-8"), str(user)
    try:
        return text("scorer.json"), "danshari/data/scorer.json"
    except FileNotFoundError:
        return "", ""


@cache
def line_weights() -> Weights | None:
    """Load the line scorer's weights, the user's before ours; None if there are none or they do not fit this version.

    Without weights, plain rules choose the lines that stay.
    """
    from danshari.shorten.line_scorer import expected  # most of the package, and only those who shorten need it

    try:
        written, where = scorer_text()
        return weights_from_dict(json.loads(written), expected(), where) if written else None
    except (ValueError, OSError, DanshariError) as error:
        _log.warning("the line scorer is not used: %s", error)
        return None


@cache
def markers() -> Markers:
    """Load the table of what texts give away; a user's file replaces it key by key."""
    table: dict[str, Any] = {}
    for _, found in reversed(_table("markers.toml")):
        table = {**table, **found, "cues": {**table.get("cues", {}), **found.get("cues", {})}}
    rows = tuple(
        Runner(name=row["name"], command=re.compile(row["command"]),
               **{k: re.compile(row[k], re.MULTILINE) for k in ("status", "failed", "message")})
        for row in table["runner"]
    )  # fmt: skip
    return Markers(
        machine=_any(table["machine"], 0),
        blocks=_any(table["blocks"], re.DOTALL),
        handle=re.compile(table["handle"]),
        cues={name: _any(patterns) for name, patterns in table["cues"].items()},
        done=frozenset(table["done"]),
        runners=rows,
        **{name: _any(table[name]) for name in ("imperative", "running", "ended")},
    )


def _any(patterns: list[str], flags: int = re.IGNORECASE) -> re.Pattern[str]:
    try:
        return re.compile("|".join(f"(?:{p})" for p in patterns), flags)
    except re.error as error:
        raise ArgumentError(f"markers.toml: {patterns!r} is no valid expression: {error}") from None


@cache
def phrases() -> Mapping[str, Phrases]:
    """Load the fixed words of hand-overs, by language."""
    table = {k: row for _, found in reversed(_table("handover.toml")) for k, row in found.items()}
    return {
        language: Phrases(language=language, **{**row, "common": frozenset(row["common"].split())})
        for language, row in table.items()
    }


@cache
def secrets() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Load what counts as a secret: names and expressions, the user's first."""
    rows = [row for _, table in _table("secrets.toml") for row in table.get("secret", ())]
    return tuple((str(row["name"]), _any([row["pattern"]], re.DOTALL)) for row in rows)


def prompt(name: str, language: str) -> str:
    """Give a prompt in the conversation's language where we have it, else in English; a user's file comes first."""
    for code in (language, "en"):
        file = f"prompts/{name}.{code}.md"
        if (home() / file).is_file():
            return (home() / file).read_text(encoding="utf-8")
        if resources.files(__package__).joinpath(file).is_file():
            return text(file)
    raise ArgumentError(f"no prompt {name!r}")


def policy_names() -> tuple[str, ...]:
    """List the presets, ours and the user's."""
    folder = resources.files(__package__).joinpath("policies")
    names = {p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml")}
    names |= {p.stem for p in (home() / "policies").glob("*.toml")}
    return tuple(sorted(names))


def policy_text(name: str) -> str:
    """Give the TOML text of a preset, with its comments."""
    if name.endswith(".toml") and Path(name).is_file():
        return Path(name).read_text(encoding="utf-8")
    user = home() / "policies" / f"{name}.toml"
    if user.is_file():
        return user.read_text(encoding="utf-8")
    if name not in policy_names():
        raise PolicyError(f"unknown policy {name!r}; known: {', '.join(policy_names())}, or a path to a .toml file")
    return text(f"policies/{name}.toml")


def load_policy(policy: str | Path | Policy) -> Policy:
    """Load a policy by preset name or path; a `Policy` is returned as it is."""
    if isinstance(policy, Policy):
        return policy
    if not isinstance(policy, str | Path):
        raise PolicyError(f"policy must be a name, a path or a Policy, not {type(policy).__name__}")
    path = Path(policy)
    if path.suffix == ".toml":
        if not path.is_file():
            raise PolicyError(f"no policy file at {path}")
        return _parsed(path.read_text(encoding="utf-8"), str(path), path.stem)
    return _preset(str(policy))


@cache
def _preset(name: str) -> Policy:
    return _parsed(policy_text(name), f"policy {name}", name)


def _parsed(text: str, where: str, name: str) -> Policy:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{where} is no valid TOML: {error}") from None
    parent = values.pop("extends", None)
    if isinstance(parent, str) and parent not in policy_names():
        raise PolicyError(f"{where}: extends = {parent!r}; known: {', '.join(policy_names())}")
    base = _preset(parent) if isinstance(parent, str) else None
    return make_policy({"name": name, **values}, base=base, where=where)
