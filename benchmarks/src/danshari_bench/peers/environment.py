"""Virtual environments of peers and kits, created on demand with pinned requirements."""

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
from danshari_bench.comparison.cache import cache_folder

_MARK = "danshari.json"
SOURCES = tuple(str(Path(package.__path__[0]).parent) for package in (danshari, danshari_bench))
"""Folders from which both packages are imported; they go into the PYTHONPATH of every environment."""


class Environment:
    """The environment of one peer or kit."""

    def __init__(self, name: str, requires: tuple[str, ...]) -> None:
        self.name, self.requires = name, requires
        self.folder = cache_folder() / "environments" / name

    @property
    def python(self) -> Path:
        """Return the interpreter inside."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def ready(self) -> bool:
        """Whether the environment exists with the current requirements."""
        try:
            mark = json.loads((self.folder / _MARK).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return bool(mark.get("requires") == list(self.requires)) and self.python.exists()

    def install(self) -> None:
        """Create the environment anew. Raises ArgumentError with the installer's last output if it fails."""
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


def wrap_without_network(command: list[str]) -> list[str]:
    """Return the command wrapped so that it runs without a network, where Linux namespaces allow it.

    The worker refuses connections in any case.
    """
    return [*_network_wrapper(), *command]


def _network_wrapper() -> list[str]:
    """Return the `unshare` prefix that works here, or an empty list."""
    tool = shutil.which("unshare")
    if tool is None:
        return []
    for flags in (["-n"], ["-r", "-n"]):
        if subprocess.run([tool, *flags, "true"], capture_output=True, check=False).returncode == 0:
            return [tool, *flags, "--"]
    return []
