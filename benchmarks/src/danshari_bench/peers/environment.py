"""Environments of peers and kits, made on demand: one virtual environment each, pinned requirements inside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import danshari
import danshari_bench
from danshari.errors import ArgumentError
from danshari_bench.comparison.cache import cache_home

_MARK = "danshari.json"
SOURCES = tuple(str(Path(package.__path__[0]).parent) for package in (danshari, danshari_bench))
"""Folders from which both packages are imported; they go into the PYTHONPATH of every environment."""


class Environment:
    """The environment of one peer or kit."""

    def __init__(self, name: str, requires: tuple[str, ...]) -> None:
        self.name, self.requires = name, requires
        self.folder = cache_home() / "environments" / name

    @property
    def python(self) -> Path:
        """Give the interpreter inside."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def ready(self) -> bool:
        """Say whether the environment stands and holds what the row asks for now."""
        try:
            mark = json.loads((self.folder / _MARK).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return bool(mark.get("requires") == list(self.requires)) and self.python.exists()

    def install(self) -> None:
        """Make the environment anew; raises ArgumentError with the installer's last words if it cannot be made."""
        shutil.rmtree(self.folder, ignore_errors=True)
        fast = shutil.which("uv")
        if fast:
            self._run([fast, "venv", "--quiet", "--python", sys.executable, str(self.folder)])
            self._run([fast, "pip", "install", "--quiet", "--python", str(self.python), *self.requires])
        else:
            venv.create(self.folder, with_pip=True)
            pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            self._run([*pip, *self.requires])
        (self.folder / _MARK).write_text(json.dumps({"requires": list(self.requires)}), encoding="utf-8")

    def remove(self) -> None:
        """Delete the environment."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(self.folder, ignore_errors=True)
            said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-6:])
            raise ArgumentError(f"could not install {', '.join(self.requires)} for {self.name}:\n{said}")


def isolated(command: list[str]) -> list[str]:
    """Cut the network off where the system lets us (Linux namespaces); the worker refuses connections anyway."""
    return [*_cut_off(), *command]


def _cut_off() -> list[str]:
    tool = shutil.which("unshare")
    if tool is None:
        return []
    for flags in (["-n"], ["-r", "-n"]):
        if subprocess.run([tool, *flags, "true"], capture_output=True, check=False).returncode == 0:
            return [tool, *flags, "--"]
    return []
