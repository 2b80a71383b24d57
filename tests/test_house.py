"""The house rules: layers, sizes, names, no print, one broad except, keyword-only values."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import danshari
from danshari.bench.kits import KITS
from danshari.bench.peers import PEERS

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "danshari"
FILES = sorted(p for p in SRC.rglob("*.py"))
MAY_SEE = {
    "core": {"core", "errors"},
    "passes": {"core", "passes", "errors"},
    "formats": {"core.model", "core.edits", "core.text", "formats", "errors"},
    "archive": {"core", "archive", "errors"},
    "sessions": {"core", "formats", "sessions", "errors"},
    "data": {"core", "data", "errors"},
    "models": {"core", "models", "errors"},
}
"""Room → what it may import of ours; rooms not listed are the façade and the outer ring."""
OUTER = {"cli", "bench", "testing", "proxy"}
INNER = {
    "major",
    "preparing",
    "asking",
    "restoring",
    "masking",
    "compactor",
    "running",
    "deciding",
    "track",
    "saving",
    "compaction",
    "usage",
    "version",
    "errors",
    "__init__",
}


def room(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def ours(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("danshari"):
            inner = node.module.removeprefix("danshari").lstrip(".")
            yield from [inner] if inner else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("danshari.") for a in node.names if a.name.startswith("danshari"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_layers(path: Path) -> None:
    allowed = MAY_SEE.get(room(path))
    for module in ours(path):
        if allowed is not None:
            assert any(module == a or module.startswith(a + ".") for a in allowed), f"{path.name} sees {module}"
        elif room(path) in INNER:
            assert module.split(".")[0] not in OUTER, f"{path.name} sees {module}"


def test_core_is_standard_library() -> None:
    for path in (SRC / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] in {*sys.stdlib_module_names, "danshari", "__future__"}, (
                    f"{path.name}: {name}"
                )


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "scripts").glob("*.py"))], ids=lambda p: p.name)
def test_sizes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 350, f"{path.name} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = node.lineno
            assert (node.end_lineno or start) - start < 50, f"{path.name}: {node.name} is too long"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_no_print_and_one_broad_except(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            assert room(path) == "cli"
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            if caught in ("Exception", "BaseException", "everything"):
                assert path.relative_to(SRC).as_posix() in BROAD, f"{path}: a broad except"


BROAD = {
    "compactor.py",  # an agent is never broken by us
    "bench/play.py",  # a contender's fault is a row of the result
    "bench/compactions.py",
    "bench/peers/worker.py",
    "proxy/relay.py",  # a client is served whatever happens to us
    "models/base.py",  # whatever a summarizer raises means that it gave no answer
}
"""Where anything at all may be caught, and why."""


def test_one_broad_except_in_all() -> None:
    assert (SRC / "compactor.py").read_text(encoding="utf-8").count("except Exception") == 1


def modules() -> list[str]:
    """Every module that imports without other people's packages."""
    foreign = {f"danshari.bench.peers.{p.module}" for p in PEERS} | {f"danshari.bench.kits.{k.module}" for k in KITS}
    found = [m.name for m in pkgutil.walk_packages(danshari.__path__, "danshari.")]
    return [name for name in found if not name.endswith("__main__") and name not in foreign]


def test_public_values_are_keyword_only_and_slotted() -> None:
    for name in modules():
        module = importlib.import_module(name)
        for value in vars(module).values():
            if dataclasses.is_dataclass(value) and isinstance(value, type) and value.__module__ == name:
                if value.__name__.startswith("_") or value.__name__ in (
                    "Effects",
                    "View",
                    "Decision",
                    "Anatomy",
                    "Block",
                    "Reading",
                ):
                    continue
                if value.__name__ in ("ScriptedModel", "ScriptedSummarizer"):  # scripts are written by position
                    continue
                assert all(f.kw_only for f in dataclasses.fields(value)), f"{name}.{value.__name__}"


def test_all_is_what_is_public() -> None:
    assert sorted(danshari.__all__) == danshari.__all__
    for name in danshari.__all__:
        assert getattr(danshari, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        danshari.nonsense  # noqa: B018


def test_importing_costs_little() -> None:
    """The façade pulls in no command line, no event loop and no third-party package."""
    code = "import sys; from danshari import Compactor; Compactor(); print(' '.join(sorted(sys.modules)))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"rich", "click", "asyncio", "orjson", "numpy", "concurrent.futures"}
    lazy = subprocess.run([sys.executable, "-c", "import sys, danshari; print(len([m for m in sys.modules if m.startswith('danshari')]))"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert int(lazy.stdout) == 2


def test_words_to_avoid() -> None:
    """One word per thing (DESIGN's vocabulary): these never name a function, class or module."""
    avoid = {"memory", "condense", "prune", "transform", "manager", "engine", "smart", "util", "utils", "helper"}
    for path in FILES:
        assert path.stem.lower() not in avoid
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                words = set(node.name.lower().strip("_").split("_"))
                if node.name not in ("_memory", "MemoryArchive"):
                    assert not words & avoid, f"{path.name}: {node.name}"


def test_no_machine_in_the_tree() -> None:
    """No path of a workplace and no registry host stands in what we ship."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in tracked:
        path = ROOT / name
        if (
            path.suffix in (".py", ".md", ".toml", ".json", ".yml", "")
            and path.is_file()
            and path.name != "test_house.py"
        ):
            text = path.read_text(encoding="utf-8", errors="replace")
            for banned in ("/work/", "/root/", "pypi.org", "/tmp/"):
                assert banned not in text, f"{name} names {banned}"
