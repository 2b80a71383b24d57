"""The command line; each module holds one command or a family of commands.

Exit codes: 0 success; 1 a file or argument danshari cannot use; 2 a wrong command line; 3 a problem was
found, such as an invalid view, an internal error or a damaged archive; 130 interrupted.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import click

from danshari.cli.archive import archive_group, recall_command
from danshari.cli.compact import compact_command
from danshari.cli.doctor import doctor_command
from danshari.cli.handover import handover_command
from danshari.cli.policy import policy
from danshari.cli.proxy import proxy_command, status_command, wrap_command
from danshari.cli.replay import replay_command
from danshari.cli.report import report
from danshari.cli.train import train_command
from danshari.errors import DanshariError
from danshari.version import __version__

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Commands(click.Group):
    """The group of commands; other distributions add theirs through the entry points `danshari.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return our own commands in the order of this file, then those of other distributions."""
        return [
            *self.commands,
            *(p.name for p in entry_points(group="danshari.commands") if p.name not in self.commands),
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command, loading another distribution's on first use."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        found = next(iter(entry_points(group="danshari.commands", name=cmd_name)), None)
        return found.load() if found else None


@click.group(cls=Commands, context_settings=CONTEXT_SETTINGS)
@click.version_option(__version__, prog_name="danshari")
def cli() -> None:
    """Keep the context an LLM agent sends small, valid and sufficient, at a price that survives the cache."""


for _command in (
    report,
    compact_command,
    handover_command,
    recall_command,
    archive_group,
    replay_command,
    doctor_command,
    proxy_command,
    wrap_command,
    status_command,
    policy,
    train_command,
):
    cli.add_command(_command)


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
