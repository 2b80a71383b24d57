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


def folder_of(path: Path) -> str:
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
    assert folder_of(path) in MAY_SEE, f"{folder_of(path)} is in no row: give it a row in MAY_SEE"
    allowed = {*MAY_SEE[folder_of(path)], folder_of(path)}
    for module in ours(path):
        assert module.split(".")[0] in allowed, f"{path.relative_to(SRC)} sees {module}"


def test_no_circles() -> None:
    """No module imports itself by way of others, whatever folder it stands in (imports inside functions aside)."""
    graph = {name_of(path): set(ours(path, deep=False)) for path in FILES}
    names = set(graph)
    edges = {name: {m for m in seen if m in names} for name, seen in graph.items()}
    order = list(TopologicalSorter(edges).static_order())  # raises CycleError, which names the circle
    assert set(order) == names


TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("folder", sorted({p.parent for p in [*ALL, *TESTS]}), ids=lambda p: str(p.relative_to(ROOT)))
def test_folders_are_small(folder: Path) -> None:
    siblings = [p for p in folder.iterdir() if p.suffix == ".py" and p.name not in ("__init__.py", "conftest.py")]
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


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", [*ALL, *sorted((ROOT / "scripts").glob("*.py"))], ids=lambda p: p.name)
def test_sizes(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines < 400, f"{path.name} has {lines} lines"
    too_long = [node.name for node in functions(path) if (node.end_lineno or node.lineno) - node.lineno >= 50]
    assert too_long == []


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.name)
def test_no_print_and_few_broad_excepts(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    prints = any(isinstance(called, ast.Name) and called.id == "print" for called in calls)
    assert not prints or "cli" in path.relative_to(ROOT).parts
    caught = [ast.unparse(n.type) if n.type else "" for n in nodes if isinstance(n, ast.ExceptHandler)]
    broad = any(name in ("Exception", "BaseException", "") for name in caught)
    assert not broad or path.relative_to(BENCH if BENCH in path.parents else SRC).as_posix() in BROAD


BROAD = {
    "pipeline/fail_open.py",  # an agent is never broken by us
    "pipeline/decide.py",  # a caller's own pass that fails is skipped, with a note
    "replay/simulate.py",  # a contender's fault is a row of the result
    "compactions.py",
    "conversations/run.py",  # a crash is what is counted
    "peers/worker.py",
    "proxy/relay.py",
    "proxy/deciding.py",  # a client is served whatever happens to us
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


def test_public_values_are_keyword_only() -> None:
    found = [value for name in modules() for value in vars(importlib.import_module(name)).values()]
    values = [value for value in found if isinstance(value, type) and dataclasses.is_dataclass(value)]
    ours = [v for v in values if v.__module__.startswith("danshari") and not v.__name__.startswith("_")]
    by_position = {v.__name__ for v in ours if not all(field.kw_only for field in dataclasses.fields(v))}
    assert by_position <= BY_POSITION


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


AVOID = {"memory", "condense", "prune", "transform", "manager", "engine", "smart", "util", "utils", "helper"}
"""One word per thing (DESIGN's vocabulary): these never name a function, class or module."""
NOT_OURS = {"_measure_memory", "MemoryArchive", "in_memory"}
"""Where memory is the computer's."""


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.name)
def test_words_to_avoid(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    words = {word for name in {path.stem, *names} - NOT_OURS for word in name.lower().strip("_").split("_")}
    assert not words & AVOID


PLUGS = {"API", "READER", "SCRIPT", "command", "main"}
"""What every row of a table exports under the same name: providers, session formats, scripts, commands, programs."""
SPOKEN_FOR = {"peers", "external_suites"}
"""Folders of the benchmarks whose files speak the words of the tool that each adapts."""


def test_a_public_name_stands_once() -> None:
    places: dict[str, set[str]] = {}
    for path in ALL:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            for name in (getattr(t, "id", getattr(t, "name", "_")) for t in targets):
                places.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    twice = {
        name: sorted(found)
        for name, found in places.items()
        if len(found) > 1 and not name.startswith("_") and not all(SPOKEN_FOR & set(f.split("/")) for f in found)
    }
    assert {name: found for name, found in twice.items() if name not in PLUGS} == {}


IRREGULAR = (
    "told said made given kept sent held shown taken lent driven written known found begun drawn broken chosen hidden "
    "seen done gone built bought brought caught felt laid led lost meant met paid sold spent stood taught thought won "
    "bound heard"
)


def test_functions_are_named_by_verbs_and_nouns() -> None:
    """At most 3 % of function names begin with a participle (`shown`, `kept`): such a name does not say what it does."""
    firsts = [node.name.strip("_").split("_")[0] for path in ALL for node in functions(path)]
    participles = [
        word for word in firsts if word in IRREGULAR.split() or (word.endswith("ed") and not word.endswith("eed"))
    ]
    assert len(participles) <= 0.03 * len(firsts), f"{len(participles)} of {len(firsts)}"


@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.stem)
def test_no_assertion_stands_under_an_if(path: Path) -> None:
    """An assertion that a condition may skip can stop testing without anyone seeing it."""
    branches = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.If)]
    below = [inner for branch in branches for inner in ast.walk(branch)]
    assert [node.lineno for node in below if isinstance(node, ast.Assert)] == []


TEXT_FILES = (".py", ".md", ".toml", ".json", ".yml", "")


def test_no_machine_in_the_tree() -> None:
    """No path of a workplace and no registry host stands in what we ship."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    paths = [ROOT / name for name in tracked if name != "tests/test_house.py"]
    texts = {
        p: p.read_text(encoding="utf-8", errors="replace") for p in paths if p.is_file() and p.suffix in TEXT_FILES
    }
    banned = ("/work/", "/root/", "pypi.org", "/tmp/")
    assert [(path.name, word) for path, text in texts.items() for word in banned if word in text] == []
