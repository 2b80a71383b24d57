"""Lines of output: telling ones, ends, source code."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from danshari.analysis.lines import is_source, select_telling_lines, text_ends


def test_telling_lines_keep_errors_totals_ends_and_shared_names() -> None:
    lines = [f"step {n} fine and dandy" for n in range(400)]
    lines[200] = "src/ledger.py:12: error: ledger_total is undefined"
    lines[250] = "checked handleRequest twice"
    lines[-1] = "3 failed, 397 passed"
    kept = select_telling_lines(lines, 900, {"handleRequest"})
    assert {0, 200, 250, 399} <= set(kept)
    assert sum(len(lines[n]) + 6 for n in kept) <= 900
    assert kept == sorted(kept)


@given(st.text(alphabet=st.characters(), max_size=4000), st.integers(1, 2000))
def test_ends_cut_no_text_apart(text: str, budget: int) -> None:
    first, last = text_ends(text, budget)
    assert text.startswith(first)
    assert text.endswith(last)
    assert len(first) + len(last) <= len(text) or text == first


def test_source_is_recognised() -> None:
    code = [f"def f{n}(x):\n    return x + {n}".split("\n")[n % 2] for n in range(60)]
    assert is_source(code)
    assert not is_source([f"2026-03-01 INFO worker {n} took {n}ms" for n in range(60)])


def test_long_output_is_squeezed_in_linear_time() -> None:
    """A ratio, not a limit in seconds: four times the text takes about four times as long."""

    def took(lines: int) -> float:
        text = [f"{n} worker {n * 7} handled the request of ledger_{n}" for n in range(lines)]
        started = time.process_time()
        select_telling_lines(text, 2000, {"ledger_7"})
        return time.process_time() - started

    small, large = min(took(2000) for _ in range(3)), min(took(8000) for _ in range(3))
    assert large < 16 * small
