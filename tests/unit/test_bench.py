"""The comparison's machinery: statistics, peers in their processes, the store, bad input, the same bytes twice, the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from danshari_bench.comparison import ablation
from danshari_bench.comparison.ablation import ablate, list_variants
from danshari_bench.comparison.cache import ResultStore
from danshari_bench.comparison.run import compare_contenders
from danshari_bench.peers import PEERS, Peer, find_peer
from danshari_bench.peers.views import PeerWorker, make_peer_contender
from danshari_bench.report.chart import (
    Axis,
    Bar,
    Series,
    draw_scatter,
    draw_stacked_bars,
)
from danshari_bench.report.page import write_report

from danshari import data
from danshari.cli import cli
from danshari.cli.report import bundled_sessions
from danshari.core.pricing import Prices
from danshari.errors import ArgumentError, DanshariError, SessionError
from danshari.replay.references import find_needs
from danshari.replay.simulate import ContenderSetting
from danshari.replay.statistics import Bootstrap, correct_holm
from danshari.sessions import RecordedSession, read
from danshari.testing import Call, Turn, conversation

TOYS = "tests.unit.toy_peers"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANSHARI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")


def one_by_one(work: Callable[[Any], Any], jobs: Sequence[Any], description: str) -> list[Any]:
    return [work(job) for job in jobs]


def session(name: str = "s", rounds: int = 5) -> RecordedSession:
    turns = [
        Turn(
            calls=(
                Call(name="Bash", arguments={"command": f"tail part_{n}.log"}, result=f"see part_{n + 1}.log\n" * 40),
            )
        )
        for n in range(rounds)
    ]
    messages = conversation("openai-chat", "Find the fault.", [*turns, Turn(text="Found.")])
    return RecordedSession(id=name, source="t", format="openai-chat", messages=messages, model="gpt-5").set_collection(
        "toys"
    )


def run(*arguments: str) -> Result:
    """Run a command as `main` does: danshari's own errors are one line and exit code 1."""
    result = CliRunner().invoke(cli, ["bench", *arguments])
    if isinstance(result.exception, DanshariError):
        result.output_bytes += str(result.exception).encode()
    elif result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


# ── statistics ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_bootstrap_is_seeded_and_holds_the_value() -> None:
    pairs = {f"t{n}": (float(n % 4), 4.0) for n in range(40)}
    first, second = (Bootstrap(list(pairs)).ratio(pairs) for _ in range(2))
    assert first == second
    assert first.low is not None
    assert first.high is not None
    assert first.value is not None
    assert first.low < first.value < first.high
    assert first.value == pytest.approx(0.375)
    alone = Bootstrap(["t"]).ratio({"t": (1.0, 2.0)})
    assert (alone.value, alone.low) == (0.5, None)
    assert Bootstrap([]).ratio({}).value is None


def test_paired_differences_and_holm() -> None:
    pairs = {f"t{n}": (float(n % 4), 4.0) for n in range(40)}
    better = {t: (a + 0.5, b) for t, (a, b) in pairs.items()}
    draws = Bootstrap(list(pairs))
    difference, p = draws.difference(better, pairs)
    assert difference.value == pytest.approx(0.125)
    assert p < 0.01
    same, p_same = draws.difference(pairs, pairs)
    assert (same.value, p_same) == (0.0, 1.0)
    assert correct_holm({"a": 0.01, "b": 0.04, "c": 0.03}) == {"a": pytest.approx(0.03), "c": pytest.approx(0.06),
                                                      "b": pytest.approx(0.06)}  # fmt: skip


# ── peers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def setting() -> ContenderSetting:
    made = find_needs(session())
    return ContenderSetting(format="openai-chat", model="gpt-5", prices=Prices(), needs=made)


def toy(start: str) -> Peer:
    return Peer(name=f"toy-{start}", about="", module=TOYS, start=start)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker that can see the toys; its time limit is short."""
    import sys

    import danshari_bench.peers.views as views

    made = PeerWorker(sys.executable, limit=15)
    root = str(Path(__file__).parent.parent.parent)
    monkeypatch.setattr(views, "EXTRA_FOLDERS", (root,))
    monkeypatch.setitem(views._workers, sys.executable, made)
    yield made
    made.stop()


def test_a_peer_runs_in_its_process_and_is_remembered(worker: PeerWorker) -> None:
    made = setting()
    compact = make_peer_contender(toy("honest")).start(made)
    views = [compact(made.needs.session.messages[: r.cut]) for r in made.needs.rounds]
    assert views[0] == made.needs.session.messages[:1]
    assert views[-1][1]["content"].startswith("[{'role'")
    assert len(made.calls) == len([v for v in views if len(v) == 2 and v[1]["role"] == "user"])
    worker.stop()
    worker._python = "/nowhere/python"
    again = setting()
    assert make_peer_contender(toy("honest")).start(again)([]) == views[0]  # from the store: no process was needed


def test_a_crash_is_noted_and_the_rest_goes_on(worker: PeerWorker) -> None:
    made = setting()
    make_peer_contender(toy("crash")).start(made)
    assert made.faults == ["request 3: ValueError: no idea", "request 6: ValueError: no idea"]


@pytest.mark.parametrize(
    ("start", "said"),
    [("die", "the process ended"), ("calls_home", "OSError"), ("nothing_of_the_kind", "AttributeError")],
)
def test_what_stops_a_peer_is_said(worker: PeerWorker, start: str, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        make_peer_contender(toy(start)).start(setting())


def test_a_hanging_peer_meets_its_time_limit(worker: PeerWorker) -> None:
    worker.limit = 1.5
    with pytest.raises(RuntimeError, match="time limit"):
        make_peer_contender(toy("hang")).start(setting())
    worker.limit = 15
    assert make_peer_contender(toy("chatter")).start(setting())([])  # a new process answers, whatever it prints


def test_garbage_instead_of_an_answer(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nread line\necho 'not json'\n", encoding="utf-8")
    script.chmod(0o755)
    made = PeerWorker(script, limit=10)
    assert "garbage" in made.ask({"module": "x"})["broken"]
    made.stop()


def test_a_peer_that_writes_into_its_input_harms_nobody(worker: PeerWorker) -> None:
    made = setting()
    before = json.dumps(made.needs.session.messages)
    view = make_peer_contender(toy("changes_its_input")).start(made)([])
    assert view[0]["content"] == "gone"
    assert json.dumps(made.needs.session.messages) == before


def test_peer_rows() -> None:
    assert len({p.name for p in PEERS}) == len(PEERS) >= 8
    assert all(p.requires and "==" in p.requires[0] for p in PEERS)
    with pytest.raises(ArgumentError, match="known: langchain-clear"):
        find_peer("nobody")


# ── the store ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_half_written_file_is_set_aside(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.put("abcd", {"x": 1})
    assert store.get("abcd") == {"x": 1}
    store.path("abcd").write_text('{"format": 1, "val', encoding="utf-8")
    assert store.get("abcd") is None
    assert store.path("abcd").with_suffix(".broken").exists()
    store.put("abcd", 2)
    assert store.get("abcd") == 2
    store.path("abcd").write_text('{"format": 99, "value": 3}', encoding="utf-8")
    assert store.get("abcd") is None


def test_a_folder_that_cannot_be_written_only_costs_the_reuse(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    store = ResultStore(tmp_path / "file")
    store.put("abcd", 1)
    assert store.get("abcd") is None


# ── the comparison ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_bytes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [s.set_collection("bundled") for p in bundled_sessions()[:2] for s in read(p)]
    found = []
    for turn in range(2):
        monkeypatch.setenv("DANSHARI_CACHE", str(tmp_path / f"cache{turn}"))
        made = compare_contenders(
            sessions, ["balanced", "keep-last"], vectors=(".10", ".02"), budgets=(0.5,), each=one_by_one
        )
        made.pop("timing")
        found.append(json.dumps(made))
    assert found[0] == found[1]
    rows = {(r["contender"], r["vector"], r["budget"]): r for r in json.loads(found[0])["rows"]}
    off, mine, plain = rows["off", ".10", None], rows["balanced", ".10", None], rows["keep-last", ".10", None]
    assert off["dollars"]["value"] == off["tokens"] == off["sar"]["value"] == 1.0
    assert mine["dollars"]["value"] < 1 < plain["dollars"]["value"]
    assert mine["invalid_requests"] == mine["faulty_sessions"] == 0
    assert mine["files_f1"] > 0.9
    assert rows["keep-last", ".10", 0.5]["tokens"] < 1


def test_an_interrupted_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that were finished are read back: a second run plays nothing."""
    import danshari_bench.comparison.plan as study

    compare_contenders([session()], ["balanced"], vectors=(".10",), each=one_by_one)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr(study, "play_session", never)
    found = compare_contenders([session()], ["balanced"], vectors=(".10",), each=one_by_one)
    assert {r["contender"] for r in found["rows"]} == {"off", "balanced"}


def test_sessions_with_nothing_to_measure_are_said_and_kept() -> None:
    """No request at all is noted; no action and no reference give empty shares, not errors."""
    silent = RecordedSession(
        id="silent", source="t", format="openai-chat", messages=[{"role": "user", "content": "Hi"}]
    )
    talk = conversation("openai-chat", "Hi.", [Turn(text="Hello.", user="Bye."), Turn(text="Bye.")])
    chat = RecordedSession(id="chat", source="t", format="openai-chat", messages=talk, model="gpt-5")
    found = compare_contenders(
        [silent.set_collection("a"), chat.set_collection("a")], ["balanced"], vectors=(".10",), each=one_by_one
    )
    assert "silent: no request in it (no assistant message); left out" in found["notes"]
    row = next(r for r in found["rows"] if r["contender"] == "balanced")
    assert (row["sessions"], row["sar"]["value"], row["sar"]["n"]) == (1, None, 0)
    assert "No action referred" in write_report(found)


def test_an_invalid_contender_is_a_row_that_says_so(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text("def orphans(messages):\n    return [m for m in messages if m['role'] != 'assistant']\n"
                   "def fails(messages):\n    raise KeyError('x')\n"
                   "def nothing(messages):\n    return None\n", encoding="utf-8")  # fmt: skip
    names = [f"{own}:{n}" for n in ("orphans", "fails", "nothing")]
    found = compare_contenders([session()], names, vectors=(".10",), each=one_by_one)
    rows = {r["contender"]: r for r in found["rows"] if r["group"] == "all"}
    assert rows[names[0]]["invalid_sessions"] == 1
    assert rows[names[0]]["void"]
    assert "follows no assistant message" in rows[names[0]]["problem"]
    assert rows[names[1]]["fault"] == "KeyError: 'x'"
    assert "NoneType" in rows[names[2]]["fault"]
    assert all(rows[name]["sessions"] == 1 for name in names)
    page = write_report(found)
    assert "follows no assistant message" in page


def test_a_contender_that_writes_into_its_input_harms_nobody(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text("from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\nclass Spoils:\n    n: int = 0\n"
                   "    def __call__(self, messages):\n        for m in messages:\n            m['content'] = 'gone'\n"
                   "        return messages\n", encoding="utf-8")  # fmt: skip
    found = compare_contenders([session(rounds=24)], [f"{own}:Spoils", "literal"], vectors=(".10",), each=one_by_one)
    spoilt, literal = (next(r for r in found["rows"] if r["contender"] == n) for n in (f"{own}:Spoils", "literal"))
    assert spoilt["tokens"] < 0.9
    alone = compare_contenders([session(rounds=24)], ["literal"], vectors=(".10",), each=one_by_one)
    assert literal["dollars"] == next(r for r in alone["rows"] if r["contender"] == "literal")["dollars"]


def test_a_changed_policy_file_is_another_contender(tmp_path: Path) -> None:
    """Stored cells are keyed by what a policy says, not by the name of its file."""
    file = tmp_path / "mine.toml"
    tokens = []
    for keep in (1, 9):
        file.write_text(f'extends = "literal"\nkeep_rounds = {keep}\nmax_length = 50\n', encoding="utf-8")
        found = compare_contenders([session(rounds=24)], [str(file)], vectors=(".10",), each=one_by_one)
        tokens.append(next(r for r in found["rows"] if r["contender"] == str(file))["tokens"])
    assert tokens[0] < tokens[1]


def test_nothing_to_compare_is_said() -> None:
    silent = RecordedSession(
        id="silent", source="t", format="openai-chat", messages=[{"role": "user", "content": "Hi"}]
    )
    with pytest.raises(SessionError, match="no session with a request"):
        compare_contenders([silent.set_collection("a")], ["balanced"], vectors=(".10",), each=one_by_one)


@pytest.mark.parametrize("text", ["def broken(:\n", "raise SystemExit(3)\n", "x = 1\n"])
def test_files_that_cannot_be_loaded_are_said(tmp_path: Path, text: str) -> None:
    own = tmp_path / "mine.py"
    own.write_text(text, encoding="utf-8")
    result = run("sessions", str(bundled_sessions()[0]), "--policy", f"{own}:f")
    assert result.exit_code == 1
    assert str(own) in result.output


# ── pages and commands ──────────────────────────────────────────────────────────────────────────────────────────


class Balanced(HTMLParser):
    """Checks that tags close in order."""

    VOID = frozenset({"meta", "br", "line", "rect", "circle", "polyline", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_sessions_command_writes_json_and_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = run("sessions", str(bundled_sessions()[0]), "--policy", "balanced", "--policy", "literal", "--peer", "ends",
                 "--budgets", "0.3", "--prices", ".10", "--json", str(folder), "--html", str(folder))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "balanced" in result.output
    (written,) = folder.glob("sessions-*.json")
    found = json.loads(written.read_text(encoding="utf-8"))
    assert {r["contender"] for r in found["rows"]} == {"off", "balanced", "literal", "ends"}
    (page,) = folder.glob("sessions-*.html")
    parser = Balanced()
    parser.feed(page.read_text(encoding="utf-8"))
    assert parser.open == []
    assert "prefers-color-scheme:dark" in page.read_text(encoding="utf-8")
    assert "<script" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sessions", "nowhere.json"), "no such file"),
        (("sessions", "{session}", "--policy", "nobody"), "unknown contender 'nobody'"),
        (("sessions", "{session}", "--peer", "langchain-trim"), "danshari bench peers install langchain-trim"),
        (("sessions", "{session}", "--budgets", "3"), "give shares between 0 and 1"),
        (("compactions", "{session}"), "a compaction record needs `before`"),
        (("compactions", "{record}", "--method", "x.py:f"), "unknown method"),
        (("cases", "{folder}"), "needs check_case.py"),
        (("kits", "run", "nobody"), "unknown kit"),
        (("kits", "run", "conformance"), "danshari bench kits install conformance"),
        (("kits", "run", "ctxdrift"), "needs --cases"),
        (("peers", "install", "nobody"), "unknown peer"),
    ],
)
def test_wrong_use_is_said_plainly(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"before": [], "summary": "s", "after": []}), encoding="utf-8")
    places = {"session": str(bundled_sessions()[0]), "record": str(record), "folder": str(tmp_path)}
    result = run(*(a.format(**places) for a in arguments))
    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output


def test_compactions_command_and_own_methods(tmp_path: Path) -> None:
    read_call = Call(name="Read", arguments={"file_path": "src/ledger.py"}, result="def ledger_total(entries):\n")
    later = Call(name="Grep", arguments={"pattern": "ledger_total"}, result="src/ledger.py:1")
    messages = conversation("anthropic", "Mend it.", [Turn(calls=(read_call,)), Turn(calls=(later,))])
    record = {"id": "r", "before": messages[:3], "summary": "The fault is in `ledger_total(entries)`, I think.",
              "after": messages[3:]}  # fmt: skip
    (tmp_path / "r.json").write_text(json.dumps(record), encoding="utf-8")
    own = tmp_path / "own.py"
    own.write_text("def short(before, max_chars):\n    return 'x' * 9000\ndef broken(before, max_chars):\n    return 1 / 0\n",
                   encoding="utf-8")  # fmt: skip
    result = run("compactions", str(tmp_path / "r.json"), "--method", "danshari", "--method", f"{own}:short",
                 "--method", f"{own}:broken", "--share", "1", "--json", "-")  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = {r["method"]: r for r in json.loads(result.output)["rows"]}
    assert rows["danshari"]["locators"]["value"] == 1.0
    assert "allowed; cut" in rows[f"{own}:short"]["fault"]
    assert "ZeroDivisionError" in rows[f"{own}:broken"]["fault"]


def test_lists_of_peers_and_kits() -> None:
    for group in ("peers", "kits"):
        rows = json.loads(run(group, "list", "--json").output)
        assert rows
        assert not any(row["installed"] for row in rows)
        assert run(group, "list").exit_code == 0


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
    found = compare_contenders([session("a", 24), session("b", 22)], ["balanced", "ends"], vectors=(".10",), budgets=(0.3,),
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


def test_the_handover_bench_counts_what_survives() -> None:
    """On the bundled sessions: words whole, nothing invented, and five in a row keep or recall everything put in."""
    result = run("handover", *map(str, bundled_sessions()[:1]), "--longest", "1", "--documents", "1", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["measures"]["rules"]["kept"] == found["measures"]["rules"]["n"] > 0
    assert found["measures"]["invented"]["kept"] == 0
    assert (found["lost"], found["invalid"], found["faults"]) == (0, 0, [])
    kept = next(row for row in found["generations"] if row["way"] == "kept")
    assert kept["standing"][0] + kept["recalled"] == kept["standing"][1] > 10
    assert kept["gone"][0] == kept["gone"][1] > 0
    shown = run("handover", str(bundled_sessions()[0]), "--longest", "1")
    assert "five in a row" in shown.output


def test_a_part_switched_off_is_held_against_the_whole(tmp_path: Path) -> None:
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make part_{n}"},
                         result="\n".join(f"line {k} of part_{n}.log: step_{n}_{k} done" for k in range(160))),))
        for n in range(24)
    ]  # fmt: skip
    messages = conversation("openai-chat", "Find the fault.", [*turns, Turn(text="Found.")])
    long = RecordedSession(
        id="long", source="t", format="openai-chat", messages=messages, model="gpt-5"
    ).set_collection("toys")
    found = ablate([long, session()], data.load_policy("balanced"), [".10"], one_by_one)
    rows = {row["variant"]: row for row in found["rows"]}
    assert found["sessions"] == 1
    assert rows["output-whole"]["tokens_change"]["value"] > 0.1, "first sight shortens this session's output"
    assert set(rows) == set(list_variants(data.load_policy("balanced")))
    assert not any(row["faults"] for row in found["rows"])
    with pytest.raises(SessionError, match="20 rounds"):
        ablate([session()], data.load_policy("balanced"), [".10"], one_by_one)
    (tmp_path / "s.json").write_text(json.dumps(messages))
    result = run("ablation", str(tmp_path / "s.json"), "--prices", ".10")
    assert result.exit_code == 0
    assert "first sight leaves command output" in result.output
    assert "1 sessions of 20 rounds and more" in result.output


def test_every_variant_switches_something_off_in_balanced() -> None:
    variants = list_variants(data.load_policy("balanced"))
    named = [
        line[1:-1]
        for line in (Path(ablation.__file__).with_name("ablation.toml")).read_text(encoding="utf-8").splitlines()
        if line.startswith("[")
    ]
    assert [*variants] == ["balanced", *named]


def test_searches_by_kind_find_what_was_archived(tmp_path: Path) -> None:
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make part_{n}"},
                         result="\n".join(f"line {k} of step_{n}_{k}: 账目核对第{n}批 {n * 1000 + k}77" for k in range(160))),))
        for n in range(24)
    ]  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps(conversation("openai-chat", "Go.", [*turns, Turn(text="Done.")])))
    found = json.loads(run("queries", str(tmp_path / "s.json"), "--json").output)
    assert found["originals"] > 10
    assert set(found["kinds"]) >= {"identifier", "command", "number", "chinese"}
    for kind in ("identifier", "command", "number"):
        assert found["kinds"][kind]["three"] > 0.9 > 3 * found["kinds"][kind]["chance"], kind
    assert "by chance" in run("queries", str(tmp_path / "s.json")).output
