"""Cache folder of benchmarks: environments, views of peers and results of finished cells.

Everything in it can be deleted at any time. An unreadable file is renamed and its content computed
again.
"""

from __future__ import annotations

import contextlib
import json
import os
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import danshari
import danshari_bench

CACHE_VARIABLE = "DANSHARI_CACHE"
"""Environment variable naming the folder for what can be made again."""
STORE_FORMAT = 1
"""Format number of stored cells and views."""


def cache_folder() -> Path:
    """Return `$DANSHARI_CACHE`, else `danshari` in the platform's cache folder."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "danshari"


def hash_json(*parts: Any) -> str:
    """Return the hash of JSON values as 32 hex digits."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@cache
def code_hash() -> str:
    """Return the hash of danshari's source and data files, because results depend on the code."""
    made = blake2b(digest_size=16)
    for root in (Path(danshari.__file__).parent, Path(danshari_bench.__file__).parent):
        files = sorted(
            p
            for p in root.rglob("*")
            if p.suffix in (".py", ".toml") or (p.suffix == ".json" and p.parent.name != "sessions")
        )
        for path in files:
            if "cli" not in path.relative_to(root).parts:
                made.update(path.relative_to(root).as_posix().encode())
                made.update(path.read_bytes())
    return made.hexdigest()


class ResultStore:
    """JSON files by key in one folder; writes are atomic and unreadable files are ignored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Return the file of a key."""
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> Any:
        """Return the stored value, or None if there is no usable one."""
        path = self.path(key)
        try:
            value = json.loads(path.read_bytes())
        except OSError:
            return None
        except ValueError:
            with contextlib.suppress(OSError):
                path.rename(path.with_suffix(".broken"))
            return None
        return value.get("value") if isinstance(value, dict) and value.get("format") == STORE_FORMAT else None

    def put(self, key: str, value: Any) -> None:
        """Store a value; errors of the file system are ignored."""
        path = self.path(key)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps({"format": STORE_FORMAT, "value": value}), encoding="utf-8")
            beside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
