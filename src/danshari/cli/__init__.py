"""The command line: one file a family of commands.

Exit codes: 0 all well · 1 a file or argument danshari cannot use · 2 a wrong command line · 3 a replay found an
invalid view or a fault · 130 interrupted.
"""

from __future__ import annotations

import sys

import click

from danshari.cli.archives import archive_group, recall_command
from danshari.cli.bench import bench
from danshari.cli.compacting import compact_command
from danshari.cli.doctoring import doctor_command
from danshari.cli.handing import handover_command
from danshari.cli.policies import policy
from danshari.cli.proxying import proxy_command, status_command, wrap_command
from danshari.cli.replaying import replay_command
from danshari.cli.reporting import report
from danshari.cli.training import train_command
from danshari.errors import DanshariError
from danshari.version import __version__

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(context_settings=CONTEXT)
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
    bench,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line; danshari's own errors become one clear line and exit code 1."""
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
