"""Charts and the page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from danshari_bench.comparison.run import compare_contenders
from danshari_bench.report.chart import Axis, Bar, Series, draw_scatter, draw_stacked_bars
from danshari_bench.report.page import write_report

from tests.support.comparisons import one_by_one, recorded_session


def test_charts_stay_inside_their_frame() -> None:
    series = [Series(name=f"s{n}", points=[(n / 9, 2.0 - n)], colour="red", ring=True) for n in range(10)]
    drawn = draw_scatter(series, Axis(title="x"), Axis(title="y", low=0.2), title="t<")
    assert "t&lt;" in drawn
    assert drawn.count("<circle") == 10
    bars = draw_stacked_bars(
        [Bar(name="a", parts=[("x", 0.6), ("y", 0.4)])], {"x": "red", "y": "blue"}, title="b", least=0.5
    )
    assert bars.count("<rect") == 4


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser (chromium) here")
def test_the_page_in_a_real_browser(tmp_path: Path) -> None:
    """It renders with its charts and tables, and nothing in it fails."""
    found = compare_contenders([recorded_session("a", 24), recorded_session("b", 22)], ["balanced", "ends"], vectors=(".10",), budgets=(0.3,),
                    each=one_by_one)  # fmt: skip
    page = tmp_path / "page.html"
    page.write_text(write_report(found), encoding="utf-8")
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.count("<svg") >= 3
    assert done.stdout.count("<tr") > 10
    assert "balanced" in done.stdout
