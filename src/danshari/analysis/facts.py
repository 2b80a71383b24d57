"""What is known about a conversation, grown item by item and never recomputed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from danshari.analysis.first_seen import Past
from danshari.analysis.lines import identifiers
from danshari.analysis.phases import Phases
from danshari.analysis.terminal import CLEANED_KINDS, cleaned
from danshari.analysis.tools import Act, ToolRow, Tools
from danshari.core.items import Digest, Item, ItemId
from danshari.core.line_weights import Weights
from danshari.core.placeholder import is_ours, leaned
from danshari.core.tokens import Estimator

_FAILURE = re.compile(
    r"^\s*(?:error\b|failed\b|traceback|<tool_use_error>|fatal:|your proposed edit has introduced"
    r"|no replacement|could not|invalid )"
    r"|<returncode>(?!0<)"
    r"|(?:exit(?:ed)?(?: with)?(?: code| status)[: ]+|Process exited with code |Exit code )(?!0\b)\d+"
    r"|Permission denied|EACCES|ENOENT|EROFS|Read-only file system|No such file or directory|Is a directory"
    r"|\b[1-9]\d* (?:failed|failures?|errors?)\b"
    r"|String to replace not found|old_str.{0,40}did not appear|File has not been read yet",
    re.IGNORECASE,
)
_SIGNS = ("error", "fail", "traceback", "fatal:", "introduced", "no replacement", "could not", "invalid ", "returncode",
          "exit", "denied", "eacces", "enoent", "erofs", "read-only", "no such", "directory", "not found", "did not",
          "not been read")  # fmt: skip
"""One of these stands in whatever `_FAILURE` finds; looking for them costs a tenth."""
_SUCCESS = re.compile(
    r"\b\d+ passed\b|^(?:OK|ok|PASS|success)\b|BUILD SUCCESS|\b0 (?:errors|failed|failures)\b|<returncode>0<"
    r"|(?:exit code|exited with code)[: ]+0\b",
    re.IGNORECASE | re.MULTILINE,
)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_SCANNED = 400
READ_AGAIN = "the file was read again later"
"""Why an earlier view is overtaken by a read that shows at least as much."""


class Facts:
    """Analyses of one conversation; passes read it and never change it."""

    def __init__(self, tools: Tools, count: Estimator, weights: Weights | None = None) -> None:
        self.tools = tools
        self.count = count
        self.weights = weights
        """The line scorer; None: lines are chosen by plain rules."""
        self.items: list[Item] = []
        self.index: dict[ItemId, int] = {}
        self.tokens: list[float] = []
        self.total = 0.0
        self.first_sight = 0
        """Position of the first item after the last assistant item."""
        self.call_turns: list[int] = []
        """Turns that made calls, ascending; the length counts rounds with calls."""
        self.turn_at: list[int] = [0]  # turn → position of its first item
        self.call_of: dict[int, int] = {}
        self.result_of: dict[int, int] = {}
        self.pending: dict[str, int] = {}
        self._verdicts: dict[Digest, bool] = {}
        self.acts: dict[int, Act] = {}
        self.weighty: list[int] = []
        """Positions of results and calls of more than 200 characters, ascending."""
        self.touched: dict[str, int] = {}
        """Path → position of its last read or change; the order is that of last touch."""
        self.views: dict[str, list[int]] = {}
        """Path → positions of results that show it."""
        self.changed: dict[str, int] = {}
        """Path → position of the last successful edit or write."""
        self.overtaken: dict[int, tuple[int, str]] = {}
        """Position → (position that made it needless, why)."""
        self.changed_calls: list[int] = []
        """Calls that changed a file, ascending."""
        self.on_disk: set[int] = set()
        """Calls whose text arguments stand in a file by now."""
        self.users: list[int] = []
        self._calls: dict[str, int] = {}
        self._same: dict[tuple[str, bool, str], int] = {}
        self._failing: dict[str, int] = {}
        self._plan: dict[str, int] = {}
        self._moved = 0
        self.spans: dict[str, tuple[int, int]] = {}
        """Call id → first and last position of the pieces that carry it."""
        self._placed: dict[int, str] = {}  # result → its file, named when it arrived
        self.leans: dict[str, int] = {}
        """Recall id → newest turn of a text of ours, met in the input, that leaves lines to that item."""
        self.past = Past(self.items, self.acts, self.users)
        self.phases = Phases(self.items, self.acts, self.call_turns, self.pending)
        self._asked: dict[str, int] = {}
        self._again: list[int] = []
        self._fails: dict[str, int] = {}
        self._failed_again: list[int] = []

    @property
    def turn(self) -> int:
        """Newest turn."""
        return self.items[-1].turn if self.items else 0

    def extend(self, items: Iterable[Item]) -> None:
        """Take new items in; everything known before stays as it is."""
        for item in items:
            at = len(self.items)
            while len(self.turn_at) <= item.turn:
                self.turn_at.append(at)
            self.items.append(item)
            self.index.setdefault(item.id, at)
            size = self.count.item(item.kind, item.text, item.weight)
            self.tokens.append(size)
            self.total += size
            if item.call:
                self.spans[item.call] = (self.spans.get(item.call, (at, at))[0], at)
            if item.role == "assistant":
                self.first_sight = at + 1
            if len(item.text) > 200 and item.kind in ("result", "call"):
                self.weighty.append(at)
            if item.kind == "call":
                self._call(at, item)
            elif item.kind == "result":
                self._result(at, item)
            elif item.kind == "text" and item.role == "user":
                self.users.append(at)

    def _call(self, at: int, item: Item) -> None:
        if not self.call_turns or self.call_turns[-1] != item.turn:
            self.call_turns.append(item.turn)
        act = self.tools.act(item.name, item.text)
        if act.kind == "edit" and not act.path and (found := _PATCHED.search(item.text.replace("\\n", "\n"))):
            act = Act(kind="edit", path=found.group(1).strip(), key=act.key)
        self.acts[at] = act
        self._calls[item.call] = at
        self.pending[item.call] = at
        if act.key in self._asked and act.kind not in ("plan", "job", "ask"):
            self._again.append(at)
        self._asked.setdefault(act.key, at)
        if act.kind == "plan":
            earlier = self._plan.get(item.name)
            if earlier is not None and len(item.text) > 200:
                self.overtaken[earlier] = (at, "a newer plan follows")
            self._plan[item.name] = at

    def _result(self, at: int, item: Item) -> None:
        self.pending.pop(item.call, None)
        call = self._calls.get(item.call)
        if call is None:
            return
        self.call_of[at] = call
        self.result_of[call] = at
        if is_ours(item.text):
            for id_ in leaned(item.text):
                self.leans[id_] = item.turn
            return
        act = self.acts[call]
        text = self.clean(at)  # as admission shows it, so that a second pass over a view finds nothing new
        good = not item.failed and not failing(text)
        key = (item.name, item.failed, text)
        earlier = self._same.get(key)
        if earlier is not None and len(item.text) > 200:
            self.overtaken[earlier] = (at, "the same result stands later")
        self._same[key] = at
        if act.moves:
            self._moved += 1
        if act.path and act.kind in ("read", "edit", "write"):
            self._file(at, call, act, good)
        elif act.kind == "run":
            told = bool(_SUCCESS.search(text[-2 * _SCANNED :])) or self._was_flagged(act)
            self._run(at, act, good and told, good)

    def _file(self, at: int, call: int, act: Act, good: bool) -> None:
        path = self._placed[at] = self.place(act)
        self.touched.pop(path, None)
        self.touched[path] = at
        if act.kind == "read" and good:
            views = self.views.setdefault(path, [])
            for old in views:
                if old not in self.overtaken and act.covers(self.acts[self.call_of[old]]):
                    self.overtaken[old] = (at, READ_AGAIN)
            views.append(at)
        elif act.kind in ("edit", "write") and good:
            for name in {path, *_PATCHED.findall(self.items[call].text.replace("\\n", "\n"))}:
                self.changed[name.strip()] = at
            self.on_disk.add(call)
            self.changed_calls.append(call)
            if act.kind == "write":
                for old in self.views.get(path, ()):
                    self.overtaken.setdefault(old, (at, "the file was written anew later"))

    def place(self, act: Act) -> str:
        """Name a file so that equal names mean the same file: a relative path hangs on where the shell stood."""
        return f"{self._moved}:{act.path}" if act.relative and self._moved else act.path

    def _run(self, at: int, act: Act, succeeded: bool, good: bool) -> None:
        key = " ".join(act.command.split())
        if succeeded:
            earlier = self._failing.pop(key, None)
            if earlier is not None:
                self.overtaken.setdefault(earlier, (at, "the same command succeeded later"))
        elif not good:
            if self._fails.get(key) == len(self.changed_calls):
                self._failed_again.append(at)
            self._fails[key] = len(self.changed_calls)
            self._failing[key] = at

    def _was_flagged(self, act: Act) -> bool:
        """Say whether the last failure of this command was flagged by its tool, so that no flag means success."""
        earlier = self._failing.get(" ".join(act.command.split()))
        return earlier is not None and self.items[earlier].failed

    def clean(self, at: int) -> str:
        """Give a result's text as admission shows it, terminal escapes and progress taken out of command output."""
        item = self.items[at]
        act = self.act_at(at)
        return cleaned(item.text) if (act.kind if act else "other") in CLEANED_KINDS else item.text

    def succeeded(self, result: Item) -> bool:
        """Say whether a result reports success, by its flag or by its first and last characters."""
        verdict = self._verdicts.get(result.digest)
        if verdict is None:
            verdict = self._verdicts[result.digest] = not result.failed and not failing(result.text)
        return verdict

    def act_at(self, at: int) -> Act | None:
        """Give what the call at `at`, or the call that the result at `at` answers, does."""
        return self.acts.get(self.call_of.get(at, at))

    def row_at(self, at: int) -> ToolRow:
        """Give the tool row of the call or result at `at`."""
        return self.tools.row(self.items[at].name)

    def newest_plan(self, at: int) -> bool:
        """Say whether the item at `at` is the newest call of a plan tool (todo list, plan)."""
        return self._plan.get(self.items[at].name) == at

    def recent_from(self, rounds: int) -> int:
        """Give the first turn of the newest `rounds` rounds with calls; beyond the newest turn for 0."""
        if rounds <= 0:
            return self.turn + 1
        return self.call_turns[-rounds] if len(self.call_turns) >= rounds else 0

    def before(self, turn: int) -> int:
        """Give the position at which `turn` begins: everything before it is older."""
        return self.turn_at[turn] if turn < len(self.turn_at) else len(self.items)

    def splits(self, first: int, last: int) -> bool:
        """Say whether the span parts a round, or a call from its result."""
        items = self.items
        for inside, step in ((first, -1), (last, 1)):
            turn, at = items[inside].turn, inside + step
            while 0 <= at < len(items) and items[at].turn == turn:
                if items[at].role in ("assistant", "tool"):
                    return True
                at += step
        for item in items[first : last + 1]:
            low, high = self.spans.get(item.call, (first, last)) if item.call else (first, last)
            if low < first or high > last:
                return True
        return False

    def stale(self, at: int) -> bool:
        """Say whether the file shown at `at` was changed since."""
        act = self.act_at(at)
        return bool(act and act.path and act.kind == "read" and self.changed.get(self.place(act), -1) > at)

    def placed(self, at: int) -> str:
        """Name the file that the result at `at` shows or changes, as it was called when the result arrived."""
        act = self.act_at(at)
        return self._placed.get(at) or (self.place(act) if act and act.path else "")

    def repeats(self, since: int) -> int:
        """Count calls from position `since` on that ask what an earlier call asked already."""
        return sum(at >= since for at in self._again)

    def failed_again_at(self, since: int) -> list[int]:
        """List results from position `since` on of commands that had failed before, with no file changed between."""
        return [at for at in self._failed_again if at >= since]

    def failing_now(self) -> str:
        """Give the command that failed last and has not succeeded since."""
        return next(reversed(self._failing), "")

    def viewed_before(self, at: int) -> bool:
        """Say whether an earlier result showed the file that the result at `at` shows."""
        return any(view < at for view in self.views.get(self.placed(at), ()))

    def closed(self) -> bool:
        """Say whether no tool loop is open: the newest item is the user's, and no call waits."""
        return bool(self.items) and not self.pending and self.items[-1].kind == "text" and self.items[-1].role == "user"

    def wanted(self, at: int, rounds: int = 4) -> set[str]:
        """Collect identifiers of the task, the newest request and the last actions up to position `at`."""
        words: set[str] = set()
        users = [u for u in self.users if u < at]
        for position in {*users[:1], *users[-1:]}:
            words |= identifiers(self.items[position].text[:4000])
        since = self.items[at].turn - rounds
        for position in range(at - 1, -1, -1):
            item = self.items[position]
            if item.turn < since:
                break
            if item.role == "assistant" and item.kind in ("call", "text"):
                words |= identifiers(item.text[:2000])
        return words


def failing(text: str) -> bool:
    """Say whether the beginning or the end of a result reports a failure."""
    probe = text if len(text) <= 2 * _SCANNED else text[:_SCANNED] + "\n" + text[-_SCANNED:]
    low = probe.lower()
    return any(sign in low for sign in _SIGNS) and bool(_FAILURE.search(probe))
