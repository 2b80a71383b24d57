"""The command line: every module of this folder is one command, its name the word that is typed.

Exit codes: 0 success; 1 a file or argument danshari cannot use; 2 a wrong command line; 3 a problem was
found, such as an invalid view, an internal error or a damaged archive; 130 interrupted.
"""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

import click

from danshari.errors import DanshariError
from danshari.version import __version__

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Commands(click.Group):
    """Find commands by module name; other distributions add theirs through the entry points `danshari.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return our own commands in alphabetical order, then those of other distributions."""
        own = _own_commands()
        return [*own, *sorted({p.name for p in entry_points(group="danshari.commands")} - set(own))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module, or load another distribution's; None if there is no such command."""
        found: click.Command | None = None
        if cmd_name in _own_commands():
            found = import_module(f"danshari.cli.{cmd_name}").command
        else:
            for point in entry_points(group="danshari.commands", name=cmd_name):
                found = _load_foreign(point)
        return found


def _load_foreign(point: EntryPoint) -> click.Command:
    """Load another distribution's command; one that cannot be loaded becomes a command that says so."""
    try:
        loaded: click.Command = point.load()
    except (ImportError, AttributeError) as error:
        why = f"the command {point.name!r} ({point.value}) cannot be loaded: {error}"

        @click.command(point.name, help=why, context_settings={"ignore_unknown_options": True})
        @click.argument("rest", nargs=-1, type=click.UNPROCESSED)
        def loaded(rest: tuple[str, ...]) -> None:  # noqa: ARG001
            raise click.ClickException(why)

    return loaded


def _own_commands() -> list[str]:
    """Return the names of the modules in this folder."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


@click.group(cls=Commands, context_settings=CONTEXT_SETTINGS)
@click.version_option(__version__, prog_name="danshari")
def cli() -> None:
    """Keep the context an LLM agent sends small, valid and sufficient, at a price that survives the cache."""


def main() -> None:
    """Run the command line; danshari's own errors print one line and exit with code 1."""
    try:
        cli.main(prog_name="danshari", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("danshari: interrupted", err=True)
        sys.exit(130)
    except DanshariError as error:
        click.echo(f"danshari: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        click.echo(f"danshari: {error.filename or 'output'}: {error.strerror or error}", err=True)
        sys.exit(1)
