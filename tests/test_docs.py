"""The docs cannot rot: generated pages are current, every snippet runs, everything public is documented, links lead somewhere."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from danshari_bench.comparison.cache import CACHE_VARIABLE
from danshari_bench.external_suites import KITS
from danshari_bench.peers import PEERS

import danshari
from danshari import data, errors
from danshari.archive.location import DATA_VARIABLE
from danshari.core.policy import policy_fields
from danshari.formats import FORMATS
from danshari.passes import PASS_NAMES
from danshari.sessions import READERS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if not p.name.endswith(".in.md"))]
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}
REFERENCE = "\n".join(text for page, text in TEXT.items() if page.parent.name == "reference")


def make_docs() -> Any:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    assert make_docs().stale_pages() == [], "run `make docs` and commit"


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in TEXT[p]], ids=lambda p: p.stem)
def test_snippets_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("__snippet__")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    for block in re.findall(r"```python\n(.*?)```", TEXT[page], re.DOTALL):
        exec(compile(block, str(page), "exec"), vars(module))
    assert "failed open" not in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [t for t in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT[page]) if not t.startswith("http")]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_everything_public_is_documented() -> None:
    for name in danshari.__all__:
        assert f"`{name}" in REFERENCE or name == "__version__", name
    for name in policy_fields():
        assert f"| `{name}` |" in REFERENCE, name
    for name in (*FORMATS, *PASS_NAMES):
        assert f"`{name}`" in REFERENCE, name
    classes = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
    for value in classes:
        assert f"`{value.__name__}`" in REFERENCE or value.__module__ != errors.__name__, value
    for name in (*(p.name for p in PEERS), *(k.name for k in KITS), *(r.name for r in READERS)):
        assert f"`{name}`" in REFERENCE, name
    assert data.HOME_VARIABLE in REFERENCE
    assert CACHE_VARIABLE in REFERENCE
    assert DATA_VARIABLE in REFERENCE


def test_no_other_environment_variable_is_read() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"environ(?:\.get)?[\[(]\"?([A-Za-z_]+)", path.read_text(encoding="utf-8")):
            assert name in (
                "HOME_VARIABLE",
                "APPDATA",
                "XDG_CONFIG_HOME",
                "COLUMNS",
                "CACHE_VARIABLE",
                "LOCALAPPDATA",
                "XDG_CACHE_HOME",
                "DATA_VARIABLE",
                "XDG_DATA_HOME",
                "PATH",
                "api",
            ), f"{path.name} reads {name}"


def test_policies_are_in_the_docs_and_the_changelog_has_the_version() -> None:
    guide = TEXT[ROOT / "docs/guides/choose-a-policy.md"]
    assert all(f"`{name}`" in guide for name in data.policy_names())
    assert danshari.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_decisions_are_numbered() -> None:
    names = sorted(p.name for p in (ROOT / "docs/decisions").glob("*.md"))
    assert [int(n[:4]) for n in names] == list(range(1, len(names) + 1))


def test_tables_are_well_formed() -> None:
    """Every model row has source and date, every preset parses, every user-facing table loads."""
    import tomllib

    rows = tomllib.loads((ROOT / "src/danshari/data/models.toml").read_text(encoding="utf-8"))["model"]
    needed = {"match", "provider", "family", "window", "output", "input_price", "output_price", "read", "write", "ttl",
              "minimum", "binding", "source", "checked"}  # fmt: skip
    for row in rows:
        assert needed <= row.keys(), row
        assert row["family"] in data.tokenizer_families()
    assert rows[-1]["match"] == ["*"]
    for name in data.policy_names():
        assert data.load_policy(name).name == name
    assert data.load_tools().rows
