"""Load the data tables in this folder: tools, models, prices, markers, phrases, prompts, policies.

Nothing else reads these files. A user's file of the same name in the configuration folder comes
first.
"""

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from danshari.analysis.markers import Markers, Runner
from danshari.analysis.tools import TOOL_KINDS, ToolRow, ToolTable
from danshari.analysis.user_text import BlockTags
from danshari.core.line_weights import ScorerWeights, weights_from_dict
from danshari.core.policy import Policy, make_policy, outdated_fields
from danshari.core.pricing import ModelInfo, Prices
from danshari.core.tokens import LITERAL_ESTIMATOR, TOKEN_FEATURES, Estimator
from danshari.errors import ArgumentError, DanshariError, PolicyError

if TYPE_CHECKING:
    from danshari.core.handover_markdown import Phrases

_log = logging.getLogger("danshari")
_FOLDER = Path(__file__).parent
HOME_VARIABLE = "DANSHARI_HOME"
"""Environment variable naming the folder whose tools.toml, models.toml and policies/*.toml come before ours."""


def user_folder() -> Path:
    """Return the user's folder: `$DANSHARI_HOME`, else `danshari` under the platform's configuration folder."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named)
    base = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "danshari"


def package_text(name: str) -> str:
    """Return the text of a file in this package."""
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


def _load_tables(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Load the user's version of a table, if there is one, and then the built-in one, each with its path."""
    texts = [(f"danshari/data/{name}", package_text(name))]
    user = user_folder() / name
    if user.is_file():
        texts.insert(0, (str(user), user.read_text(encoding="utf-8")))
    found = []
    for where, written in texts:
        try:
            found.append((where, tomllib.loads(written)))
        except tomllib.TOMLDecodeError as error:
            raise ArgumentError(f"{where} is no valid TOML: {error}") from None
    return found


def _load_rows(name: str, key: str, lists: tuple[str, ...] = ()) -> list[tuple[str, dict[str, Any]]]:
    """Load the rows `[[key]]` of a table, the user's first, each with its path; `lists` are its lists of strings."""
    found = []
    for where, table in _load_tables(name):
        rows = table.get(key, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ArgumentError(f"{where}: `{key}` is no list of rows; begin each row with [[{key}]]")
        for row in rows:
            for field in lists:
                value = row.get(field, [])
                if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                    raise ArgumentError(f'{where}: {field} = {value!r}; must be a list of strings, as in ["name"]')
            found.append((where, row))
    return found


@cache
def load_tools() -> ToolTable:
    """Load the table of tool kinds.

    A user's rows come first. Raises ArgumentError for invalid TOML or an incomplete row.
    """
    rows = []
    lists = ("match", "path", "body", "old", "command")
    for where, row in _load_rows("tools.toml", "tool", lists):
        if row.get("kind") not in TOOL_KINDS or not row.get("match"):
            raise ArgumentError(f"{where}: a row needs `match` and a `kind` of {', '.join(TOOL_KINDS)}; got {row}")
        rows.append(
            ToolRow(
                kind=row["kind"],
                commands=row.get("commands", {}),
                lines=row.get("lines", 0),
                exact=row.get("exact", True),
                numbered=row.get("numbered", False),
                **{key: tuple(row[key]) for key in lists if key in row},
            )
        )
    return ToolTable(rows)


@cache
def _model_rows() -> tuple[Mapping[str, Any], ...]:
    return tuple(row for _, row in _load_rows("models.toml", "model", ("match",)))


@lru_cache(maxsize=512)
def find_model(name: str | None) -> ModelInfo:
    """Return what is known of a model; for an unknown name, conservative defaults with `known=False`."""
    short = (name or "").lower().rsplit("/", 1)[-1]
    row = next((r for r in _model_rows() if any(fnmatchcase(short, m.lower()) for m in r["match"])), None)
    if row is None:
        return ModelInfo(name=name or "")
    base = float(row.get("input_price", 1.0)) or 1.0
    prices = Prices(
        read=float(row["read"]),
        write=float(row["write"]),
        output=float(row.get("output_price", 5 * base)) / base,
        ttl=float(row["ttl"]),
        minimum=int(row["minimum"]),
        base=base,
    )
    return ModelInfo(
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


def resolve_model(name: str | ModelInfo | None, *, window: int | None, prices: Prices | None) -> ModelInfo:
    """Return a model's row with the caller's window (tokens) and prices in place of its own.

    Raises ArgumentError for a wrong type or a window that is not positive.
    """
    if name is not None and not isinstance(name, str | ModelInfo):
        raise ArgumentError(f"model must be a name or a Model, not {type(name).__name__}")
    row = name if isinstance(name, ModelInfo) else find_model(name)
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
def load_estimator(family: str) -> Estimator:
    """Return the token estimator of a tokenizer family.

    `literal` is the four-characters-a-token formula; an unknown family gets the one with the most
    tokens per text.
    """
    if family == "literal":
        return LITERAL_ESTIMATOR
    table = json.loads(package_text("tokens.json"))
    if table.get("features") != list(TOKEN_FEATURES):
        raise ArgumentError("danshari/data/tokens.json was fitted for other features; run scripts/fit_tokens.py fit")
    rows = table["families"]
    row = rows.get(family) or rows["claude-new"]
    return Estimator(family=family, row=tuple(map(float, row["row"])), call=float(row.get("call", 0)))


def tokenizer_families() -> tuple[str, ...]:
    """List the tokenizer families with fitted coefficients."""
    return tuple(json.loads(package_text("tokens.json"))["families"])


def scorer_text() -> tuple[str, str]:
    """Return the line scorer's weights as JSON text and their path; the user's file comes first.

    Both are empty if there are none.
    """
    user = user_folder() / "scorer.json"
    if user.is_file():
        return user.read_text(encoding="utf-8"), str(user)
    try:
        return package_text("scorer.json"), "danshari/data/scorer.json"
    except FileNotFoundError:
        return "", ""


@cache
def line_weights() -> ScorerWeights | None:
    """Load the line scorer's weights, the user's before ours; None if there are none or they do not fit this version.

    Without weights, plain rules choose the lines that stay.
    """
    from danshari.shorten.line_scorer import (
        feature_bucket_counts,  # most of the package, and only those who shorten need it
    )

    try:
        written, where = scorer_text()
        return weights_from_dict(json.loads(written), feature_bucket_counts(), where) if written else None
    except (ValueError, OSError, DanshariError) as error:
        _log.warning("the line scorer is not used: %s", error)
        return None


@cache
def load_markers() -> Markers:
    """Load the patterns that classify texts; a user's file replaces them key by key."""
    table: dict[str, Any] = {}
    for _, found in reversed(_load_tables("markers.toml")):
        table = {**table, **found, "cues": {**table.get("cues", {}), **found.get("cues", {})}}
    rows = tuple(
        Runner(name=row["name"], command=re.compile(row["command"]),
               **{k: re.compile(row[k], re.MULTILINE) for k in ("status", "failed", "message")})
        for row in table["runner"]
    )  # fmt: skip
    return Markers(
        machine=_compile_any(table["machine"], 0),
        tags=BlockTags(
            data=tuple(tuple(group.split()) for group in table["data_tags"]),
            notices=tuple(table["notice_tags"]),
            marks=_compile_any(table["marks"], 0),
            instructions=_compile_any(table["instructions"], 0),
            source=_compile_any(table["source"], 0),
        ),
        handle=re.compile(table["handle"]),
        cues={name: _compile_any(patterns) for name, patterns in table["cues"].items()},
        done=frozenset(table["done"]),
        runners=rows,
        **{name: _compile_any(table[name]) for name in ("imperative", "running", "ended")},
    )


def _compile_any(patterns: list[str], flags: int = re.IGNORECASE) -> re.Pattern[str]:
    try:
        return re.compile("|".join(f"(?:{p})" for p in patterns), flags)
    except re.error as error:
        raise ArgumentError(f"markers.toml: {patterns!r} is no valid expression: {error}") from None


@cache
def load_phrases() -> Mapping[str, Phrases]:
    """Load the fixed phrases of hand-overs, by language."""
    from danshari.core.handover_markdown import Phrases  # only hand-overs need it

    table = {k: row for _, found in reversed(_load_tables("handover.toml")) for k, row in found.items()}
    return {
        language: Phrases(language=language, **{**row, "common": frozenset(row["common"].split())})
        for language, row in table.items()
    }


@cache
def load_secrets() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Load the patterns of secrets as (name, pattern), the user's first."""
    rows = [row for _, row in _load_rows("secrets.toml", "secret")]
    return tuple((str(row["name"]), _compile_any([row["pattern"]], re.DOTALL)) for row in rows)


def load_prompt(name: str, language: str) -> str:
    """Return a prompt in the given language, else in English; a user's file comes first.

    Raises ArgumentError if there is none of that name.
    """
    for code in (language, "en"):
        file = f"prompts/{name}.{code}.md"
        if (user_folder() / file).is_file():
            return (user_folder() / file).read_text(encoding="utf-8")
        if _FOLDER.joinpath(file).is_file():
            return package_text(file)
    raise ArgumentError(f"no prompt {name!r}")


def policy_names() -> tuple[str, ...]:
    """Return the names of all presets, built-in and the user's."""
    folder = _FOLDER.joinpath("policies")
    names = {p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml")}
    names |= {p.stem for p in (user_folder() / "policies").glob("*.toml")}
    return tuple(sorted(names))


def policy_text(name: str) -> str:
    """Return the TOML text of a preset, with its comments."""
    if name.endswith(".toml") and Path(name).is_file():
        return Path(name).read_text(encoding="utf-8")
    user = user_folder() / "policies" / f"{name}.toml"
    if user.is_file():
        return user.read_text(encoding="utf-8")
    if name not in policy_names():
        raise PolicyError(f"unknown policy {name!r}; known: {', '.join(policy_names())}, or a path to a .toml file")
    return package_text(f"policies/{name}.toml")


def load_policy(policy: str | Path | Policy) -> Policy:
    """Load a policy by preset name or path; a `Policy` is returned unchanged. Raises PolicyError."""
    if isinstance(policy, Policy):
        return policy
    if not isinstance(policy, str | Path):
        raise PolicyError(f"policy must be a name, a path or a Policy, not {type(policy).__name__}")
    path = Path(policy)
    if path.suffix == ".toml":
        if not path.is_file():
            raise PolicyError(f"no policy file at {path}")
        return _parse_policy(path.read_text(encoding="utf-8"), str(path), path.stem)
    return _load_preset(str(policy))


@cache
def _load_preset(name: str) -> Policy:
    return _parse_policy(policy_text(name), f"policy {name}", name)


def _parse_policy(text: str, where: str, name: str) -> Policy:
    """Parse a policy file; `extends` names the preset whose values it starts from."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{where} is no valid TOML: {error}") from None
    parent = values.pop("extends", None)
    if isinstance(parent, str) and parent not in policy_names():
        raise PolicyError(f"{where}: extends = {parent!r}; known: {', '.join(policy_names())}")
    base = _load_preset(parent) if isinstance(parent, str) else None
    if outdated := outdated_fields(values):
        _log.warning("%s is written for danshari 0.1: %s; it is read all the same", where, "; ".join(outdated))
    return make_policy({"name": name, **values}, base=base, where=where)
