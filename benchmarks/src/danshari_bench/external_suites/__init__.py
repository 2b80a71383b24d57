"""Run public test kits for compaction, each in its own virtual environment."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from danshari.errors import ArgumentError
from danshari_bench.peers.environment import SOURCES, Environment, wrap_without_network
from danshari_bench.peers.views import tokenizer_folder

KIT_TIMEOUT = 600.0
"""Seconds a kit may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """One test kit: the module that drives it, the packages it needs, and the input it wants."""

    name: str
    about: str
    module: str
    requires: tuple[str, ...]
    wants: str = ""
    """What `--cases` must point to; empty: nothing."""

    @property
    def environment(self) -> Environment:
        """The virtual environment of the kit."""
        return Environment(f"kit-{self.module}", self.requires)


KITS: tuple[Kit, ...] = (
    Kit(
        name="conformance",
        about="compaction-conformance-kit: canaries at fixed budgets",
        module="conformance",
        requires=("compaction-conformance-kit==0.8.0",),
    ),
    Kit(
        name="compactbench",
        about="CompactBench public templates: asked-for values still there; its score with an echo reader",
        module="compactbench",
        requires=("compactbench==0.1.0", "litellm==1.110.2"),
        wants="its repository's benchmarks/public folder",
    ),
    Kit(
        name="ctxdrift",
        about="ctxdrift: audits a compaction for lost files, decisions and commands",
        module="ctxdrift",
        requires=("ctxdrift==0.1.0",),
        wants="compaction records",
    ),
    Kit(
        name="compint",
        about="the 15 COMPINT side constraints, placed in recorded sessions: verbatim retention",
        module="compint",
        requires=("conpact==0.1.0",),
        wants="recorded sessions",
    ),
)


def find_kit(name: str) -> Kit:
    """Return a kit by name. Raises ArgumentError with the known names."""
    found = next((k for k in KITS if k.name == name), None)
    if found is None:
        raise ArgumentError(f"unknown kit {name!r}; known: {', '.join(k.name for k in KITS)}")
    return found


def run_kit(row: Kit, cases: Path | None) -> dict[str, Any]:
    """Run a kit in its environment and return its JSON result; a failure gives a result with `broken`."""
    if row.wants and cases is None:
        return {"broken": f"needs --cases: {row.wants}"}
    if not row.environment.ready:
        return {"broken": f"not installed: run `danshari bench kits install {row.name}`"}
    python = str(row.environment.python)
    command = [python, "-m", f"danshari_bench.external_suites.{row.module}", *([str(cases.resolve())] if cases else [])]
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(row.environment.folder),
        "PYTHONPATH": os.pathsep.join(SOURCES),
        "PYTHONHASHSEED": "0",
        "TIKTOKEN_CACHE_DIR": tokenizer_folder(row.environment.python),
    }
    try:
        done = subprocess.run(
            wrap_without_network(command), capture_output=True, text=True, check=False, timeout=KIT_TIMEOUT, env=environ
        )
    except subprocess.TimeoutExpired:
        return {"broken": f"no answer within {KIT_TIMEOUT:.0f} seconds (the time limit)"}
    last = (done.stdout.strip().splitlines() or [""])[-1]
    try:
        value = json.loads(last)
    except ValueError:
        said = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        return {"broken": f"exit code {done.returncode}: {said[:300]}"}
    return dict(value)
