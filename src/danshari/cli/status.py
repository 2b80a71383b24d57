"""`danshari status`: show what a running proxy did."""

from __future__ import annotations

import click

from danshari.cli.shared.common import emit_json, make_table, out
from danshari.cli.shared.proxies import fetch_status


@click.command("status")
@click.option("--url", default="http://127.0.0.1:8484", show_default=True, help="The proxy's address.")
@click.option("--token", envvar="DANSHARI_PROXY_TOKEN", default="", help="Token, where the proxy asks for one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(url: str, token: str, as_json: bool) -> None:
    """Show a running proxy's sessions: tokens before and after, edits, dollars."""
    found = fetch_status(f"{url.rstrip('/')}/status.json", token)
    if as_json:
        emit_json(found)
        return
    shown = make_table("session", "client", "model", "requests", "tokens", "→", "edits", "faults", "$", "last decision")
    for row in found["sessions"]:
        shown.add_row(
            row["session"].removeprefix("proxy-"), row["client"] or "–", row["model"], str(row["requests"]),
            f"{row['before']:,.0f}", f"{row['after']:,.0f}", str(row["edits"]), str(row["faults"]),
            f"{row['dollars']:.4f}", (row["last"] or ["–"])[0],
        )  # fmt: skip
    out.print(shown)
    total = found["total"]
    for why, count in found.get("untouched", {}).items():
        out.print(f"{count} requests passed through untouched: {why}", highlight=False)
    out.print(
        f"{len(found['sessions'])} sessions, {total['requests']} requests, policy {found['policy']}, "
        f"{total['rescues']} rescues, {total['recalls']} recalls, ${total['dollars']:.4f}",
        style="dim", highlight=False,
    )  # fmt: skip
