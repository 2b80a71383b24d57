"""What is known of a conversation, updated with every new item and never recomputed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, NamedTuple

from danshari.analysis.first_seen import FirstSeen
from danshari.analysis.lines import find_identifiers
from danshari.analysis.phases import PhaseTracker
from danshari.analysis.records import PlanTracker, guide_name
from danshari.analysis.terminal import CLEANED_KINDS, clean_terminal_output
from danshari.analysis.text_mode import read_observation
from danshari.analysis.tools import ToolAction, ToolRow, ToolTable
from danshari.core.items import Digest, Item, ItemId
from danshari.core.line_weights import ScorerWeights
from danshari.core.placeholder import earlier_read_ids, is_compacted_text
from danshari.core.text import lazy_pattern
from danshari.core.tokens import Estimator

_FAILURE = lazy_pattern(
    r"^\s*(?:error\b|failed\b|traceback|<tool_use_error>|fatal:|your proposed edit has introduced"
    r"|no replacement|could not|invalid )"
    r"|<returncode>(?!0<)"
    r"|(?:exit(?:ed)?(?: with)?(?: code| status)[: ]+|Process exited with code |Exit code )(?!0\b)\d+"
    r"|Permission denied|EACCES|ENOENT|EROFS|Read-only file system|No such file or directory|Is a directory"
    r"|\b[1-9]\d* (?:failed|failures?|errors?)\b"
    r"|String to replace not found|old_str.{0,40}did not appear|File has not been read yet",
    re.IGNORECASE,
)
_FAILURE_STEMS = (
    "error", "fail", "traceback", "fatal:", "introduced", "no replacement", "could not", "invalid ", "returncode",
    "exit", "denied", "eacces", "enoent", "erofs", "read-only", "no such", "directory", "not found", "did not",
    "not been read",
)  # fmt: skip
"""One of these stands in whatever `_FAILURE` finds; looking for them costs a tenth."""
_SUCCESS = lazy_pattern(
    r"\b\d+ passed\b|^(?:OK|ok|PASS|success)\b|BUILD SUCCESS|\b0 (?:errors|failed|failures)\b|<returncode>0<"
    r"|(?:exit code|exited with code)[: ]+0\b",
    re.IGNORECASE | re.MULTILINE,
)
_PATCH_HEADER = lazy_pattern(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_SCAN_CHARACTERS = 400
OvertakenReason = Literal["same result later", "read again later", "written anew later", "solved later", "newer plan"]
OVERTAKEN_WORDS: dict[OvertakenReason, str] = {
    "same result later": "the same result stands later",
    "read again later": "the file was read again later",
    "written anew later": "the file was written anew later",
    "solved later": "the same command succeeded later",
    "newer plan": "a newer plan follows",
}
"""The reasons in words, for people and for placeholders."""


class Overtaken(NamedTuple):
    """A later item that makes an earlier one needless."""

    by: int
    """Position of the later item."""
    reason: OvertakenReason


class Facts:
    """Analyses of one conversation; passes read them and never change them.

    `tools` classifies calls, `count` estimates tokens, `weights` are those of the line scorer; without them
    lines are chosen by plain rules.
    """

    def __init__(self, tools: ToolTable, count: Estimator, weights: ScorerWeights | None = None) -> None:
        self.tools, self.count, self.weights = tools, count, weights
        self.items: list[Item] = []
        self.index: dict[ItemId, int] = {}
        self.tokens: list[float] = []
        self.total = 0.0
        self.first_sight = 0
        """Position of the first item after the last assistant item."""
        self.call_turns: list[int] = []
        """Turns that made calls, ascending; the length counts rounds with calls."""
        self.turn_at: list[int] = [0]  # turn → position of its first item
        self.call_of, self.result_of = dict[int, int](), dict[int, int]()
        self.pending: dict[int, str] = {}
        """Position of every call of the newest turn without a result → its id."""
        self.unanswered: dict[int, str] = {}  # the same of earlier turns: the agent went on without it
        self._verdicts: dict[Digest, bool] = {}
        self.acts: dict[int, ToolAction] = {}
        self.weighty: list[int] = []
        """Positions of results and calls of more than 200 characters, ascending."""
        self.touched: dict[str, int] = {}
        """Path → position of its last read or change; the order is that of last touch."""
        self.views: dict[str, list[int]] = {}
        """Path → positions of results that show it."""
        self.changed: dict[str, int] = {}
        """Path → position of the last successful edit or write."""
        self.overtaken: dict[int, Overtaken] = {}
        """Position of an item that a later one made needless → that one."""
        self.changed_calls: list[int] = []
        """Calls that changed a file, ascending."""
        self.on_disk: set[int] = set()
        """Calls whose text arguments stand in a file by now."""
        self.users: list[int] = []
        self._calls: dict[str, list[int]] = {}
        self._same: dict[tuple[str, bool, str], int] = {}
        self._failing: dict[str, int] = {}
        self.plans = PlanTracker(items=self.items, acts=self.acts, states=tools.states)
        self._guides: dict[str, int] = {}
        self._moved = 0
        self.spans: dict[int, list[int]] = {}
        """Position of a piece with a call id → first and last position of the pieces of the same call."""
        self.newest_spans: dict[str, list[int]] = {}
        """Call id → span of the newest call with that id."""
        self._placed: dict[int, str] = {}  # result → its file, named when it arrived
        self.newest_dependent: dict[str, int] = {}
        """Recall id → newest turn at which the input holds a shortened read that refers to this item."""
        self.past = FirstSeen(self.items, self.acts, self.users)
        self.phases = PhaseTracker(self.items, self.acts, self.call_turns, self.pending)
        self._asked, self._fails = dict[str, int](), dict[str, int]()
        self._again, self._failed_again = list[int](), list[int]()

    @property
    def turn(self) -> int:
        """Newest turn."""
        return self.items[-1].turn if self.items else 0

    def extend(self, items: Iterable[Item]) -> None:
        """Add new items; what was known before stays as it is."""
        for read in items:
            item = read_observation(read, self.items)
            at = len(self.items)
            if len(self.turn_at) <= item.turn:
                self._begin_turn(item.turn, at)
            self.items.append(item)
            self.index.setdefault(item.id, at)
            size = self.count.estimate_item(item.kind, item.text, item.weight)
            self.tokens.append(size)
            self.total += size
            if item.role == "assistant":
                self.first_sight = at + 1
            if len(item.text) > 200 and item.kind in ("result", "call"):
                self.weighty.append(at)
            if item.kind == "call":
                self._add_call(at, item)
            elif item.kind == "result":
                self._add_result(at, item)
            elif item.kind == "text" and item.role == "user":
                self.users.append(at)
            if item.call or item.program:
                self._add_to_call(at, item)

    def _begin_turn(self, turn: int, at: int) -> None:
        """Record where a turn begins; calls that are still open then will hardly be answered any more."""
        while len(self.turn_at) <= turn:
            self.turn_at.append(at)
        self.unanswered.update(self.pending)
        self.pending.clear()

    def _add_call(self, at: int, item: Item) -> None:
        """Record a call: its action, whether it repeats an earlier one, and plans it makes outdated."""
        if not self.call_turns or self.call_turns[-1] != item.turn:
            self.call_turns.append(item.turn)
        act = self.tools.parse_call(item.name, item.text)
        if act.kind == "edit" and not act.path and (found := _PATCH_HEADER.search(item.text.replace("\\n", "\n"))):
            act = ToolAction(kind="edit", path=found.group(1).strip(), key=act.key)
        self.acts[at], replaced = self.plans.add_call(at, item, act)
        act = self.acts[at]
        if replaced is not None and len(item.text) > 200:
            self.overtaken[replaced] = Overtaken(at, "newer plan")
        self._calls.setdefault(item.call, []).append(at)
        self.pending[at] = item.call
        if act.key in self._asked and act.kind not in ("plan", "job", "ask"):
            self._again.append(at)
        self._asked.setdefault(act.key, at)

    def _add_to_call(self, at: int, item: Item) -> None:
        """Extend the span of the call that a piece belongs to: the call itself, its result, media of the result.

        What a program calls belongs to the program's own span, which stays or leaves as one.
        """
        if item.program in self.newest_spans:
            span = self.newest_spans[item.program]
        elif item.kind == "call":
            span = [at, at]
        elif item.kind == "result" and at in self.call_of:
            span = self.spans[self.call_of[at]]
        else:
            span = self.newest_spans.get(item.call, [at, at])
        span[1] = at
        self.spans[at] = self.newest_spans[item.call or item.program] = span

    def _add_result(self, at: int, item: Item) -> None:
        """Record a result: its call, equal earlier results, and what it says about files and commands."""
        calls = self._calls.get(
            item.call
        )  # ids recur (`call_0` in every turn, one for all): the newest turn's oldest open call
        if not calls:
            return
        open_calls = self.pending if self.pending.keys() & set(calls) else self.unanswered
        call = next((c for c in calls if c in open_calls), calls[-1])
        open_calls.pop(call, None)
        if not (self.pending.keys() | self.unanswered.keys()) & set(calls):
            calls[:-1] = []  # answered: only the newest can get more
        self.call_of[at] = call
        self.result_of[call] = at
        if is_compacted_text(item.text):
            for id_ in earlier_read_ids(item.text):
                self.newest_dependent[id_] = item.turn
            return
        act = self.acts[call]
        text = self.clean_text(at)  # as admission shows it, so that a second pass over a view finds nothing new
        good = not item.failed and not is_failure_output(text)
        if text == item.text:
            self._verdicts[item.digest] = good
        key = (item.name, item.failed, text)
        earlier = self._same.get(key)
        if earlier is not None and len(item.text) > 200:
            self.overtaken[earlier] = Overtaken(at, "same result later")
        self._same[key] = at
        if act.moves:
            self._moved += 1
        self.plans.add_result(at, call)
        if good and (name := guide_name(act, self.items[call].text, text)):
            act = self._add_guide(at, call, name)
        if act.path and act.kind in ("read", "edit", "write"):
            self._add_file_result(at, call, act, good)
        elif act.kind == "run":
            told = bool(_SUCCESS.search(text[-2 * _SCAN_CHARACTERS :])) or self._has_flagged_failure(act)
            self._add_run_result(at, act, good and told, good)

    def _add_guide(self, at: int, call: int, name: str) -> ToolAction:
        """Record a result that shows a guide (a skill): its earlier version is outdated."""
        act = self.acts[call] = replace(self.acts[call], kind="skill")
        earlier = self._guides.get(name)
        if earlier is not None:
            self.overtaken[earlier] = Overtaken(at, "read again later")
        self._guides[name] = at
        return act

    def _add_file_result(self, at: int, call: int, act: ToolAction, good: bool) -> None:
        """Record a result of a read, edit or write of a file.

        A read makes earlier, smaller reads of the same file outdated; a write makes all of them outdated.
        """
        path = self._placed[at] = self.file_key(act)
        self.touched.pop(path, None)
        self.touched[path] = at
        if act.kind == "read" and good:
            views = self.views.setdefault(path, [])
            for old in views:
                if old not in self.overtaken and act.covers(self.acts[self.call_of[old]]):
                    self.overtaken[old] = Overtaken(at, "read again later")
            views.append(at)
        elif act.kind in ("edit", "write") and good:
            for name in {path, *_PATCH_HEADER.findall(self.items[call].text.replace("\\n", "\n"))}:
                self.changed[name.strip()] = at
            self.on_disk.add(call)
            self.changed_calls.append(call)
            if act.kind == "write":
                for old in self.views.get(path, ()):
                    self.overtaken.setdefault(old, Overtaken(at, "written anew later"))

    def file_key(self, act: ToolAction) -> str:
        """Return a key for the action's file; before a relative path stands the number of directory changes so far."""
        return f"{self._moved}:{act.path}" if act.relative and self._moved else act.path

    def _add_run_result(self, at: int, act: ToolAction, succeeded: bool, good: bool) -> None:
        """Record a command's outcome: failures, repeated failures, and failures that a success overtakes."""
        key = " ".join(act.command.split())
        if succeeded:
            earlier = self._failing.pop(key, None)
            if earlier is not None:
                self.overtaken.setdefault(earlier, Overtaken(at, "solved later"))
        elif not good:
            if self._fails.get(key) == len(self.changed_calls):
                self._failed_again.append(at)
            self._fails[key] = len(self.changed_calls)
            self._failing[key] = at

    def _has_flagged_failure(self, act: ToolAction) -> bool:
        """Return whether the last failure of this command was flagged as one by its tool.

        If so, a result without the flag means success.
        """
        earlier = self._failing.get(" ".join(act.command.split()))
        return earlier is not None and self.items[earlier].failed

    def clean_text(self, at: int) -> str:
        """Return a result's text as first shown: without terminal noise if it is command output."""
        item = self.items[at]
        act = self.act_at(at)
        return clean_terminal_output(item.text) if (act.kind if act else "other") in CLEANED_KINDS else item.text

    def is_success(self, result: Item) -> bool:
        """Return whether a result reports success, judged by its flag and by its first and last characters."""
        verdict = self._verdicts.get(result.digest)
        if verdict is None:
            verdict = self._verdicts[result.digest] = not result.failed and not is_failure_output(result.text)
        return verdict

    def act_at(self, at: int) -> ToolAction | None:
        """Return the action of the call at `at`, or of the call that the result at `at` answers, or None."""
        return self.acts.get(self.call_of.get(at, at))

    def tool_row_at(self, at: int) -> ToolRow:
        """Return the tool row of the call or result at `at`."""
        return self.tools.find_row(self.items[at].name)

    def is_newest_plan(self, at: int) -> bool:
        """Return whether the item at `at` is the newest call of a plan tool (todo list, plan)."""
        return self.plans.newest.get(self.items[at].name) == at

    def recent_from(self, rounds: int) -> int:
        """Return the first turn of the newest `rounds` rounds with calls; for 0 the turn after the newest."""
        if rounds <= 0:
            return self.turn + 1
        return self.call_turns[-rounds] if len(self.call_turns) >= rounds else 0

    def turn_start(self, turn: int) -> int:
        """Return the position of the first item of `turn`, or the number of items if it has none yet."""
        return self.turn_at[turn] if turn < len(self.turn_at) else len(self.items)

    def call_start(self, at: int) -> int | None:
        """Return where the call begins that the piece at `at` belongs to; None if it belongs to none."""
        span = self.spans.get(at)
        return span[0] if span else None

    def splits_round(self, first: int, last: int) -> bool:
        """Return whether the span cuts through a round, or separates a call from its result."""
        items = self.items
        for inside, step in ((first, -1), (last, 1)):
            turn, at = items[inside].turn, inside + step
            while 0 <= at < len(items) and items[at].turn == turn:
                if items[at].role in ("assistant", "tool"):
                    return True
                at += step
        spans = (self.spans[at] for at in range(first, last + 1) if at in self.spans)
        return any(low < first or high > last for low, high in spans)

    def is_stale(self, at: int) -> bool:
        """Return whether the file that the read at `at` shows was changed since."""
        act = self.act_at(at)
        return bool(act and act.path and act.kind == "read" and self.changed.get(self.file_key(act), -1) > at)

    def result_file_key(self, at: int) -> str:
        """Return the key of the file that the result at `at` shows or changes, as recorded when it arrived."""
        act = self.act_at(at)
        return self._placed.get(at) or (self.file_key(act) if act and act.path else "")

    def is_asked_again(self, at: int) -> bool:
        """Return whether the result at `at` answers a call that repeats an earlier one."""
        call = self.call_of.get(at, -1)
        place = bisect_left(self._again, call)
        return place < len(self._again) and self._again[place] == call

    def count_repeated_calls(self, since: int) -> int:
        """Count the calls from position `since` on that repeat an earlier call."""
        return sum(at >= since for at in self._again)

    def find_repeat_failures(self, since: int) -> list[int]:
        """Return positions from `since` on of failures of commands that failed before, no file changed in between."""
        return [at for at in self._failed_again if at >= since]

    def failing_command(self) -> str:
        """Return the command that failed last and has not succeeded since, or an empty string."""
        return next(reversed(self._failing), "")

    def has_earlier_view(self, at: int) -> bool:
        """Return whether an earlier result showed the file that the result at `at` shows."""
        return any(view < at for view in self.views.get(self.result_file_key(at), ()))

    def is_tool_loop_closed(self) -> bool:
        """Return whether no tool loop is open: the newest item, notes of the system aside, is a user text."""
        newest = next((item for item in reversed(self.items) if item.role != "system"), None)
        return newest is not None and not self.pending and (newest.kind, newest.role) == ("text", "user")

    def relevant_identifiers(self, at: int, rounds: int = 4) -> set[str]:
        """Return identifiers of the first and newest user text and of the agent's last rounds, all before `at`."""
        words: set[str] = set()
        users = [u for u in self.users if u < at]
        for position in {*users[:1], *users[-1:]}:
            words |= find_identifiers(self.items[position].text[:4000])
        since = self.items[at].turn - rounds
        for position in range(at - 1, -1, -1):
            item = self.items[position]
            if item.turn < since:
                break
            if item.role == "assistant" and item.kind in ("call", "text"):
                words |= find_identifiers(item.text[:2000])
        return words


def is_failure_output(text: str) -> bool:
    """Return whether the beginning or the end of a result reports a failure."""
    probe = text if len(text) <= 2 * _SCAN_CHARACTERS else text[:_SCAN_CHARACTERS] + "\n" + text[-_SCAN_CHARACTERS:]
    low = probe.lower()
    return any(sign in low for sign in _FAILURE_STEMS) and bool(_FAILURE.search(probe))
