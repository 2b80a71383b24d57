"""The house rules: layers, sizes, names, no print, one broad except, keyword-only values."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import danshari_bench
import pytest
from danshari_bench.external_suites import KITS
from danshari_bench.peers import PEERS

import danshari

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "danshari"
BENCH = ROOT / "benchmarks" / "src" / "danshari_bench"
FILES = sorted(SRC.rglob("*.py"))
ALL = [*FILES, *sorted(BENCH.rglob("*.py"))]
MODULES = {".".join(p.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__") for p in FILES}
CORE = {"core", "errors"}
KNOWN = {*CORE, "analysis"}
MAY_SEE: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "core": CORE,
    "analysis": KNOWN,
    "planning": {*KNOWN, "planning"},
    "shorten": {*KNOWN, "shorten"},
    "passes": {*KNOWN, "planning", "shorten", "passes"},
    "handovers": {*KNOWN, "planning", "handovers"},
    "formats": {*CORE, "formats"},
    "summarizers": {*CORE, "formats", "summarizers"},
    "archive": {*CORE, "archive"},
    "data": {*KNOWN, "shorten", "data"},
    "sessions": {*CORE, "formats", "sessions"},
    "compaction": {*KNOWN, "planning", "handovers"},
}
"""Room → what it may import of ours. A folder or module that stands in neither table fails the test."""
INNER = set(MAY_SEE)
MAY_SEE |= {
    "pipeline": {*INNER, "passes", "pipeline"} - {"sessions"},
    "compactor": {*INNER, "passes", "pipeline"} - {"sessions"},
    "replay": {*INNER, "passes", "pipeline", "compactor", "replay"},
    "training": {*INNER, "replay", "training"},
    "testing": {*INNER, "compactor", "replay", "testing"},
    "proxy": {*INNER, "pipeline", "compactor", "proxy"} - {"sessions"},
    "cli": {*INNER, "passes", "pipeline", "compactor", "replay", "training", "proxy", "cli"},
    "bench": {"errors", "danshari_bench"},
    "__init__": {*INNER, "pipeline", "compactor"},
    "__main__": {"cli"},
}


def folder(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def ours(path: Path, *, deep: bool = True) -> Iterator[str]:
    """Name the modules of ours that a file imports; with `deep`, inside functions and for type checkers too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if deep else tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("danshari"):
            inner = node.module.removeprefix("danshari").lstrip(".")
            below = [f"{inner}.{alias.name}".lstrip(".") for alias in node.names]
            yield from [name for name in below if name in MODULES] or [inner]
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("danshari.") for a in node.names if a.name.startswith("danshari"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_layers(path: Path) -> None:
    assert folder(path) in MAY_SEE, f"{folder(path)} is in no row: give it a row in MAY_SEE"
    allowed = {*MAY_SEE[folder(path)], folder(path)}
    for module in ours(path):
        assert module.split(".")[0] in allowed, f"{path.relative_to(SRC)} sees {module}"


def test_no_circles() -> None:
    """No module imports itself by way of others, whatever folder it stands in (imports inside functions aside)."""
    graph = {name_of(path): set(ours(path, deep=False)) for path in FILES}
    names = set(graph)
    edges = {name: {m for m in seen if m in names} for name, seen in graph.items()}
    order = list(TopologicalSorter(edges).static_order())  # raises CycleError, which names the circle
    assert set(order) == names


@pytest.mark.parametrize("folder", sorted({p.parent for p in ALL}), ids=lambda p: str(p.relative_to(ROOT)))
def test_folders_are_small(folder: Path) -> None:
    siblings = [p for p in folder.iterdir() if p.suffix == ".py" and p.name != "__init__.py"]
    assert len(siblings) <= 14, f"{folder} has {len(siblings)} modules"


def test_core_is_standard_library() -> None:
    for path in (SRC / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] in {*sys.stdlib_module_names, "danshari", "__future__"}, (
                    f"{path.name}: {name}"
                )


@pytest.mark.parametrize("path", [*ALL, *sorted((ROOT / "scripts").glob("*.py"))], ids=lambda p: p.name)
def test_sizes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") < 400, f"{path.name} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = node.lineno
            assert (node.end_lineno or start) - start < 50, f"{path.name}: {node.name} is too long"


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.name)
def test_no_print_and_one_broad_except(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            assert "cli" in path.relative_to(ROOT).parts
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            if caught in ("Exception", "BaseException", "everything"):
                assert path.relative_to(BENCH if BENCH in path.parents else SRC).as_posix() in BROAD, (
                    f"{path}: a broad except"
                )


BROAD = {
    "pipeline/fail_open.py",  # an agent is never broken by us
    "replay/simulate.py",  # a contender's fault is a row of the result
    "compactions.py",
    "peers/worker.py",
    "proxy/relay.py",  # a client is served whatever happens to us
    "summarizers/base.py",  # whatever a summarizer raises means that it gave no answer
}
"""Where anything at all may be caught, and why."""


def test_one_broad_except_in_all() -> None:
    assert (SRC / "pipeline" / "fail_open.py").read_text(encoding="utf-8").count("except Exception") == 1


def modules() -> list[str]:
    """Every module that imports without other people's packages."""
    foreign = {f"danshari_bench.peers.{p.module}" for p in PEERS}
    foreign |= {f"danshari_bench.external_suites.{k.module}" for k in KITS}
    found = [m.name for m in pkgutil.walk_packages(danshari.__path__, "danshari.")]
    found = [name for name in found if not name.startswith("danshari.bench.")]
    found += [m.name for m in pkgutil.walk_packages(danshari_bench.__path__, "danshari_bench.")]
    return [name for name in found if not name.endswith("__main__") and name not in foreign]


BY_POSITION = {"LineContext", "View", "ScriptedModel", "ScriptedSummarizer"}
"""Values that people write by position: the two halves of a view, and scripts."""


def test_public_values_are_keyword_only_and_slotted() -> None:
    for name in modules():
        module = importlib.import_module(name)
        for value in vars(module).values():
            if dataclasses.is_dataclass(value) and isinstance(value, type) and value.__module__ == name:
                if value.__name__.startswith("_") or value.__name__ in BY_POSITION:
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
    for path in ALL:
        assert path.stem.lower() not in avoid
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                words = set(node.name.lower().strip("_").split("_"))
                if node.name not in ("_measure_memory", "MemoryArchive"):
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
