"""The table of vendors: whose a path, a header or a key is, and which headers are credentials."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from danshari import data


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One row of `data/vendors.toml`."""

    name: str
    title: str
    path: re.Pattern[str] | None
    headers: frozenset[str]
    """Headers that carry its credentials."""
    marks: frozenset[str]
    """Further headers that only its clients send."""
    keys: tuple[str, ...]
    """Beginnings of its keys."""
    address: str = ""
    """Its base URL, where none of our formats has it."""
    moved: tuple[str, ...] = ()
    """How paths begin in a request, and how at its address."""

    def path_at_address(self, path: str) -> str:
        """Return the path of a request at the vendor's own address."""
        if self.moved and path.startswith(self.moved[0]):
            return self.moved[1] + path.removeprefix(self.moved[0])
        return path

    def owns_path(self, path: str) -> bool:
        """Return whether a path is one of its API."""
        return self.path is not None and self.path.match(path) is not None


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(data.package_text("vendors.toml"))


@cache
def load_vendors() -> dict[str, Vendor]:
    """Load the known vendors by name."""
    return {
        name: Vendor(
            name=name, title=row["is"], path=re.compile("|".join(row["paths"])) if row.get("paths") else None,
            headers=frozenset(row.get("headers", ())), marks=frozenset(row.get("marks", ())),
            keys=tuple(row.get("keys", ())), address=row.get("address", ""), moved=tuple(row.get("moved", ())),
        )
        for name, row in _table()["vendor"].items()
    }  # fmt: skip


def find_credentials(headers: Iterable[tuple[str, str]], query: str) -> list[str]:
    """Return every credential in a request's headers (names in lower case) and URL, without its scheme, in order.

    Of cookies, those that change by themselves are left out; of a signature, what changes with every request.
    """
    rules = _table()["credentials"]
    named = [(name, value) for name, value in headers if name != "cookie" and _is_credential(name, value, rules)]
    cookies = [part.strip() for name, value in headers if name == "cookie" for part in value.split(";")]
    kept = [part for part in cookies if part and part.partition("=")[0] not in rules["cookies"]]
    asked = [value for name, value in parse_qsl(query) if _is_credential(name.lower(), value, rules)]
    return sorted({*(_bare(value) for _, value in named), *kept, *asked})


def _is_credential(name: str, value: str, rules: Mapping[str, Any]) -> bool:
    if name in rules["others"] or not value:
        return False
    return not {*re.split(r"[-_.]", name)}.isdisjoint(rules["words"]) or value.lower().startswith(
        tuple(rules["schemes"])
    )


def _bare(value: str) -> str:
    """Return a credential without `Bearer`, and the key id of an AWS signature."""
    found = re.match(r"AWS4-\S+ Credential=([^/]+)/", value)
    return f"AWS4 {found[1]}" if found else re.sub(r"\A(?i:bearer) +", "", value)


def foreign_mark(vendor: Vendor, headers: Mapping[str, str]) -> tuple[str, Vendor] | None:
    """Return what in a request's headers is another vendor's, and whose; None if nothing is."""
    sent = [value for name, value in headers.items() if name in vendor.headers]
    bare = [part for value in sent for part in (value, value.partition(" ")[2]) if part]
    for other in load_vendors().values():
        if other is vendor:
            continue
        for name in (*other.headers, *other.marks):
            if name in headers and name not in vendor.headers:
                return f"header {name}", other
        for key in other.keys:
            if any(value.startswith(key) for value in bare):
                return f"key {key}…", other
    return None
