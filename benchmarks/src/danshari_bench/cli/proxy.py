"""`danshari bench proxy`: measure the overhead of proxies side by side in one run."""

from __future__ import annotations

import statistics
from typing import Any

import click

from danshari.cli.shared.common import emit_json, err, make_table, out, progress_bar
from danshari.errors import ArgumentError
from danshari_bench.load.proxies import (
    HISTORY_SIZES,
    PROXIES_UNDER_TEST,
    ProxyUnderTest,
    measure_proxy,
)


@click.command("proxy")
@click.option(
    "--rival",
    "names",
    multiple=True,
    type=click.Choice([r.name for r in PROXIES_UNDER_TEST]),
    help="Only these. [default: all that are installed]",
)
@click.option("--install", is_flag=True, help="Make the environments of other people's proxies first.")
@click.option("--rounds", default=60, show_default=True, help="Requests for each latency figure.")
@click.option("--seconds", default=5.0, show_default=True, help="Seconds of small requests as fast as they go.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def proxy_bench(names: tuple[str, ...], install: bool, rounds: int, seconds: float, as_json: bool) -> None:
    """Measure latency at 10k, 200k and 1M tokens, requests a second, 500 streams at once, memory a session.

    Every proxy runs in a process of its own before the same upstream, which does next to nothing. The
    requests are those of one conversation that grows by a round each time; the first (cold) one is left
    out.
    """
    chosen = [r for r in PROXIES_UNDER_TEST if not names or r.name in names or r.name == "direct"]
    for rival in chosen:
        if rival.environment and install and not rival.ready:
            err.print(f"installing {rival.name} …")
            rival.environment.install()
    able = [r for r in chosen if r.ready]
    for rival in chosen:
        if not rival.ready:
            err.print(f"note: {rival.name} is not installed (--install makes its environment)")
    with progress_bar() as bar:
        task = bar.add_task("measuring", total=None)
        found = [_measure_rival(r, rounds, seconds, lambda text: bar.update(task, description=text)) for r in able]
    if as_json:
        emit_json(found)
    else:
        _print(found)


def _measure_rival(rival: ProxyUnderTest, rounds: int, seconds: float, tell: Any) -> dict[str, Any]:
    """Measure one proxy; a failure of another project's proxy becomes a row with `fault`."""
    try:
        return measure_proxy(rival, rounds=rounds, seconds=seconds, tell=tell)
    except (TimeoutError, ValueError, OSError) as error:
        if not rival.environment:
            raise ArgumentError(f"{rival.name}: {error}") from None
        err.print(f"note: {rival.name}: {error}", highlight=False)
        return {"name": rival.name, "fault": str(error)}


def _print(found: list[dict[str, Any]]) -> None:
    """Print one row per proxy; added latency is relative to the direct connection."""
    direct = found[0]
    shown = make_table(
        "proxy",
        *(f"{name}: p50 / p99 ms" for name in HISTORY_SIZES),
        "added at 200k",
        "requests/s",
        "per CPU-s",
        "streams whole",
        "first byte",
        "MB",
        "MB/session",
    )
    for row in found:
        if "fault" in row:
            shown.add_row(row["name"], row["fault"][:60])
            continue
        added = statistics.median(row["200k"]) - statistics.median(direct["200k"])
        s = row["streams"]
        shown.add_row(
            row["name"],
            *(f"{statistics.median(row[n]):.1f} / {_percentile_99(row[n]):.1f}" for n in HISTORY_SIZES),
            f"{added:.1f}",
            f"{row['per_second']:,.0f}",
            f"{row['per_cpu_second']:,.0f}" if row["per_cpu_second"] else "–",
            f"{s['whole']}/{s['streams']}",
            f"{s['first_ms_p50']:.0f} ms",
            f"{row['resident_mb']:.0f}",
            f"{row['mb_per_session']:.1f}",
        )
    out.print(shown)
    out.print(
        f"n {len(direct['200k'])} requests a figure ({len(direct['1M'])} at 1M); tokens: four characters each; "
        "requests/s: 24 at once, sharing the machine with client and upstream; per CPU-s: requests for each second of "
        "the proxy's own processor time; streams: 500 at once, 50 events each",
        style="dim",
        highlight=False,
    )


def _percentile_99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[min(int(0.99 * len(values)), len(values) - 1)]
