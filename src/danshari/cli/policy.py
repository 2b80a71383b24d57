"""`danshari policy`: list, show and explain policies."""

from __future__ import annotations

from dataclasses import asdict

import click

from danshari import data
from danshari.cli.shared.common import emit_json, make_table, out
from danshari.core.policy import policy_fields, policy_value


@click.group("policy")
def command() -> None:
    """List, show and explain policies."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def policy_list_command(as_json: bool) -> None:
    """List the presets with the first line of their comment."""
    rows = {name: _first_comment(data.policy_text(name)) for name in data.policy_names()}
    if as_json:
        emit_json(rows)
        return
    shown = make_table("policy", "what it is for", left=2)
    for name, about in rows.items():
        shown.add_row(name, about)
    out.print(shown)


def _first_comment(text: str) -> str:
    """Return the first comment line of a policy file; "" if there is none."""
    first = text.lstrip().splitlines()[0] if text.strip() else ""
    return first.lstrip("# ").strip() if first.startswith("#") else ""


@command.command("show")
@click.argument("name")
def policy_show_command(name: str) -> None:
    """Print a preset's file, a start for your own: save it, change it, pass its path as --policy."""
    click.echo(data.policy_text(name).rstrip())
    click.echo(f"# Fields not listed keep their defaults: danshari policy explain {name}")


@command.command("explain")
@click.argument("name", default="balanced")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def explain_command(name: str, as_json: bool) -> None:
    """Show every field of a policy (name or path), its value and what it does; * marks what differs from balanced."""
    policy = data.load_policy(name)
    if as_json:
        emit_json(asdict(policy))
        return
    balanced = data.load_policy("balanced")
    shown_table = make_table("field", "value", "what it does", left=3)
    for field, text in policy_fields().items():
        value = policy_value(policy, field)
        shown = ", ".join(value) if isinstance(value, tuple) else str(value)
        shown_table.add_row(field + (" *" if value != policy_value(balanced, field) else ""), shown, text)
    out.print(shown_table)
