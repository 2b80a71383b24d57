"""Recognise what calls and results mean by their shape: lists of entries with a state, guides, ids of things alive.

Tool names say nothing here: every agent has its own. What counts are lists whose entries have a text and a state,
check boxes, a text with steps under a heading, and ids in short results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from danshari.analysis.tools import ToolAction
from danshari.core.items import Item
from danshari.core.text import lazy_pattern, parse_arguments

_BOX = lazy_pattern(
    r"^\s{0,20}(?:[-*+•]\s{1,4}|\d{1,4}[.)]\s{1,4})?(\[[ xX~/>*!✓✔-]?\]|[☐☑☒✅✓✔❌⬜🔲🔳⏳])\s{0,4}(\S.*)$"
)
_BOX_STATES = {
    **dict.fromkeys(("x", "X", "✓", "✔", "☑", "✅"), "completed"),
    **dict.fromkeys(("-", "~", "/", ">", "*", "!", "⏳"), "in_progress"),
    **dict.fromkeys(("☒", "❌"), "cancelled"),
}
_TEXT_KEYS = ("content", "step", "subject", "text", "title", "task", "description", "name")
_ID_KEYS = ("id", "taskId", "task_id", "key", "index", "number")
_ID_ENDINGS = ("id", "nr", "no", "key", "index", "number", "idx", "ref")
_TOKEN = lazy_pattern(r"[\w.:#-]{1,40}")
_WORD = lazy_pattern(r"[^\W\d_]")
_IDENT = lazy_pattern(r"(?<![\w./-])#?[A-Za-z0-9][\w:#-]{2,63}(?![\w/-]|\.\w)")
_MEASURE = lazy_pattern(r"v?\d+(?:[:.-]\d+)*(?:[a-zA-Z]{1,3}|T[\d:]+Z?)?\Z|.*=")
"""Times, dates, versions, amounts with a unit: no names of anything."""
_NUMBERED = lazy_pattern(
    r"(?i:\b(?:pid|id|session|process|job|task|agent|number|no)\b[\"']?\s?[:=#]?\s?[\"']?)#?(\d{1,12})\b"
)
_HEAD = lazy_pattern(r"\A(?:---\n(?:[^\n]*\n){0,20}?(?:name|description):|#{1,3} \S)")
_STEP = lazy_pattern(r"^\s{0,8}(?:\d{1,3}[.)]|[-*])\s{1,4}\S")
_MIN_STEPS = 3
"""Steps from which a text under a heading is a guide."""
_MAX_GUIDE = 16_000
"""Characters of a guide that an unknown tool shows."""
_SKILL_FILE = lazy_pattern(r"(?:^|[\s\"'=])[^\s\"'=]*\bSKILL\.md\b")
_BARE_NAME = lazy_pattern(r"[\w][\w.:-]{0,60}")
_MAX_STATE = 24
"""Characters of a state in words."""
_DIGITS = lazy_pattern(r"(?<![\w.-])#?(\d{1,12})(?![\w.-])")
_MAX_LIST = 20_000
"""Characters of a result that is read as a list with states."""
_SHORT = 800
"""Characters of a result that tells what was started or done rather than showing something."""


class PlanEntry(NamedTuple):
    """One entry of a list with states."""

    state: str
    text: str
    ident: str = ""


class Checklist(NamedTuple):
    """The entries that one call wrote, and whether they are the whole list or one entry of it."""

    entries: tuple[PlanEntry, ...]
    whole: bool
    id_key: str = ""
    """Argument that holds the id, of one entry."""


def state_name(value: Any, states: Mapping[str, str]) -> str:
    """Return the state that a value names by the table of words, as it was written; empty if it names none."""
    if isinstance(value, bool):
        return "completed" if value else "pending"
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_STATE:
        return ""
    return value if " ".join(value.lower().replace("_", " ").replace("-", " ").split()) in states else ""


def read_checklist(given: Mapping[str, Any], states: Mapping[str, str]) -> Checklist | None:
    """Return the list with states that call arguments hold: rows, a text with check boxes, or one entry."""
    for value in _inner_values(given, 3):
        found = read_boxes(value) if isinstance(value, str) else read_rows(value, states)
        if found:
            return Checklist(tuple(found), True)
    entry = _read_entry(given, states)
    key = next((k for k, v in given.items() if entry and entry.ident and str(v) == entry.ident), "")
    return Checklist((entry,), False, key) if entry else None


def read_plain_list(given: Mapping[str, Any]) -> list[PlanEntry]:
    """Return the entries of a list without states, as a tool that is known to keep plans may write it."""
    for value in _inner_values(given, 3):
        if isinstance(value, list):
            rows = [row if isinstance(row, Mapping) else {"text": row} for row in value]
            return [PlanEntry("pending", text) for row in rows if (text := entry_text(row))]
    return []


def _inner_values(value: Any, depth: int) -> Iterator[Any]:
    """Yield the texts and lists in a JSON value, outer ones first."""
    if isinstance(value, str | list):
        yield value
    elif isinstance(value, Mapping) and depth:
        for inner in value.values():
            yield from _inner_values(inner, depth - 1)


def read_boxes(text: str) -> list[PlanEntry]:
    """Return the entries of a text with check boxes; empty unless there are two, or most of its lines are."""
    if not any(mark in text for mark in ("[", *_BOX_STATES, "☐", "⬜", "🔲", "🔳")):
        return []
    lines = [line for line in text.split("\n") if line.strip()]
    found = []
    for line in lines:
        if box := _BOX.match(line):
            found.append(PlanEntry(_BOX_STATES.get(box[1].strip("[]"), "pending"), box[2].strip()))
    return found if len(found) > 1 or 2 * len(found) > len(lines) else []


def read_rows(value: Any, states: Mapping[str, str]) -> list[PlanEntry]:
    """Return the entries of a list of objects that all have a text and a state; empty if they have none."""
    if not isinstance(value, list) or not value or not all(isinstance(row, Mapping) for row in value):
        return []
    keys = [k for k in value[0] if all(k in row for row in value)]
    state = next((k for k in keys if all(state_name(row[k], states) for row in value)), "")
    prose = _text_key(value, [k for k in keys if k != state])
    if prose and not state and not _has_inner_rows(value):
        state = _repeated_key(value, [k for k in keys if k != prose])
    if not prose or not state or (isinstance(value[0][state], bool) and not _are_plain(value, prose)):
        return []
    ident = next(
        (k for k in (*_ID_KEYS, *keys) if k in keys and k not in (prose, state) and _tells_apart(value, k)), ""
    )
    return [PlanEntry(_state_text(row[state]), row[prose], str(row[ident]) if ident else "") for row in value]


def _state_text(value: Any) -> str:
    return value if isinstance(value, str) else "completed" if value else "pending"


def _are_plain(rows: Sequence[Mapping[str, Any]], prose: str) -> bool:
    """Return whether rows hold one text of one line each and no lists: no edits, no questions with options."""
    others = [v for row in rows for k, v in row.items() if k != prose]
    texts = [v for v in others if isinstance(v, str) and not _TOKEN.fullmatch(v)]
    return not texts and not _has_inner_rows(rows) and not any("\n" in row[prose] for row in rows)


def _has_inner_rows(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether rows hold lists of their own, as questions with options do."""
    return any(isinstance(v, list) and v and isinstance(v[0], Mapping) for row in rows for v in row.values())


def _text_key(rows: Sequence[Mapping[str, Any]], keys: Iterable[str]) -> str:
    """Return the key of the text: a usual one, else that of the shortest texts that are more than a token."""
    texts = [k for k in keys if all(isinstance(row[k], str) and row[k].strip() for row in rows)]
    usual = next((k for k in _TEXT_KEYS if k in texts), "")
    prose = [k for k in texts if any(not _TOKEN.fullmatch(row[k]) for row in rows)]
    shortest = min(prose, key=lambda k: sum(len(row[k]) for row in rows), default="")
    return usual if usual in prose or not prose else shortest


def _repeated_key(rows: Sequence[Mapping[str, Any]], keys: Iterable[str]) -> str:
    """Return a key whose values are few short words that recur, as states do where we do not know the words."""
    for key in keys:
        values = [row[key] for row in rows]
        if len(values) > 2 and all(map(_is_plain_word, values)) and len(set(values)) <= len(values) // 2 + 1:
            return key
    return ""


def _is_plain_word(value: Any) -> bool:
    """Return whether a value is a short word or two of letters only."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_STATE or not _WORD.match(value):
        return False
    return value.count(" ") < 3 and not any(c.isdigit() or c in "/.@" for c in value)


def _tells_apart(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [row[key] for row in rows]
    tokens = all(isinstance(v, int | str) and not isinstance(v, bool) and _TOKEN.fullmatch(str(v)) for v in values)
    return tokens and len(set(map(str, values))) == len(values)


def _read_entry(given: Mapping[str, Any], states: Mapping[str, str]) -> PlanEntry | None:
    """Return the one entry that flat arguments write: a state in known words, and an id or a text."""
    flat = {k: v for k, v in given.items() if isinstance(v, str | int)}
    state = next((k for k, v in flat.items() if isinstance(v, str) and state_name(v, states)), "")
    if not state or len(flat) < len(given):
        return None
    rest = {k: v for k, v in flat.items() if k != state}
    text = entry_text(rest)
    ident = entry_id(rest)
    return PlanEntry(str(given[state]), text, ident) if text or ident else None


def entry_text(given: Mapping[str, Any]) -> str:
    """Return the text of one entry in flat arguments: a usual key, else the shortest that is more than a token."""
    prose = {k: v for k, v in given.items() if isinstance(v, str) and v.strip() and not _TOKEN.fullmatch(v)}
    usual = next((given[k] for k in _TEXT_KEYS if isinstance(given.get(k), str) and given[k].strip()), "")
    return usual or min(prose.values(), key=len, default="")


def entry_id(given: Mapping[str, Any]) -> str:
    """Return the id in flat arguments: a usual key, else the first whole number or token."""
    for key in (*(k for k in _ID_KEYS if k in given), *given):
        value = given[key]
        if isinstance(value, int | str) and not isinstance(value, bool) and _TOKEN.fullmatch(str(value)):
            return str(value)
    return ""


def is_guide(text: str) -> bool:
    """Return whether a text reads as a guide: front matter with a name, or a heading with at least three steps."""
    text = text[:_MAX_GUIDE].lstrip()
    if not _HEAD.match(text):
        return False
    return text.startswith("---") or sum(bool(_STEP.match(line)) for line in text.split("\n")) >= _MIN_STEPS


def guide_name(act: ToolAction, arguments: str, text: str) -> str:
    """Return what names the guide (a skill) that a result shows, empty if it shows none.

    A guide is loaded by a tool for that, by reading or printing a file called SKILL.md, or by any tool that was given
    one bare name and answers with a text that reads as a guide.
    """
    given = parse_arguments(arguments)
    if act.kind == "skill":
        return next((v for v in given.values() if isinstance(v, str)), arguments)
    if act.kind == "read" and _SKILL_FILE.search(act.path):
        return act.path
    if act.kind == "run" and (file := _SKILL_FILE.search(act.command)) and is_guide(text):
        return file[0].strip()
    if act.kind != "other" or len(given) != 1 or len(text) > _MAX_GUIDE:
        return ""
    name = next(iter(given.values()))
    return name if isinstance(name, str) and _BARE_NAME.fullmatch(name) and is_guide(text) else ""


def find_ids(text: str) -> list[str]:
    """Return the ids that a short result names: tokens with a digit that are no measure, and numbers told to be ids."""
    found = [
        token.strip(":.#")
        for token in _IDENT.findall(text)
        if any(map(str.isdigit, token)) and not _MEASURE.match(token)
    ]
    return list(dict.fromkeys([*(t for t in found if len(t) > 2), *_NUMBERED.findall(text)]))


def fresh_ids(text: str, arguments: str) -> list[str]:
    """Return the ids and numbers in a short result that its call did not name: what the call created."""
    known = {*find_ids(arguments), *_DIGITS.findall(arguments)}
    return [i.lstrip("#") for i in dict.fromkeys((*find_ids(text), *_DIGITS.findall(text))) if i not in known]


def is_short_result(text: str) -> bool:
    """Return whether a result tells what was started or done rather than showing something."""
    return len(text) <= _SHORT


def read_told_list(text: str, states: Mapping[str, str]) -> list[PlanEntry]:
    """Return the list with states that a result shows, as JSON or as check boxes."""
    if len(text) > _MAX_LIST:
        return []
    if text.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        for inner in _inner_values(value, 3):
            if found := read_rows(inner, states) if isinstance(inner, list) else []:
                return found
    return read_boxes(text)


@dataclass(slots=True, kw_only=True)
class PlanTracker:
    """Which tools keep plans, told by what they were given and what they answered, and which plan is the newest."""

    items: Sequence[Item]
    acts: dict[int, ToolAction]
    states: Mapping[str, str]
    newest: dict[str, int] = field(default_factory=dict)
    """Tool → position of its newest plan."""
    _whole: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    _created: dict[str, int] = field(default_factory=dict)
    """Id that a result gave → the call it answered."""
    _listed: set[str] = field(default_factory=set)
    _family: set[str] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)

    def add_call(self, at: int, item: Item, act: ToolAction) -> tuple[ToolAction, int | None]:
        """Return the action, as a plan if it is one, and the position of the plan that it replaces."""
        if act.kind not in ("plan", "other"):
            return act, None
        given = parse_arguments(item.text)
        found = read_checklist(given, self.states)
        listed = act.kind == "plan"
        if not listed and found is not None and (found.whole or self._is_known(found)):
            maker = self._created.get(found.entries[0].ident)
            self._found_family(item.name, *(() if found.whole or maker is None else (self.items[maker].name,)))
        if item.name in self._family:
            act = replace(act, kind="plan")
        if act.kind != "plan":
            return act, None
        self.newest[item.name] = at
        whole = (
            (found is not None and found.whole)
            or any(v == [] or (listed and isinstance(v, list)) for v in given.values())
            or isinstance(given.get("plan"), str)
        )
        if not whole:
            return act, None
        texts = frozenset(entry.text for entry in found.entries) if found else frozenset[str]()
        self._texts |= texts
        self._listed |= {entry.ident for entry in found.entries if entry.ident} if found else set()
        earlier, known = self._whole.get(item.name, (None, frozenset[str]()))
        self._whole[item.name] = (at, texts)
        return act, earlier if listed or texts & known or not texts else None

    def add_result(self, at: int, call: int) -> None:
        """Learn from a result: ids of entries, and lists that show what the call wrote."""
        text, act = self.items[at].text, self.acts[call]
        if act.kind != "other":
            return
        given = parse_arguments(self.items[call].text)
        written = entry_text(given)
        if not written:
            return
        if len(text) <= _SHORT:
            for ident in fresh_ids(text, self.items[call].text):
                self._created[ident] = call
        shown = {entry.text for entry in read_told_list(text, self.states)}
        if written in shown or len(shown & self._texts) > 1:
            self._found_family(self.items[call].name)

    def _is_known(self, found: Checklist) -> bool:
        """Return whether a call names an entry by an id that a result gave, or by the id it has in a list.

        Ids in lists are often small numbers: there the argument's name must say that it is one.
        """
        ident = found.entries[0].ident
        return ident in self._created or (ident in self._listed and found.id_key.lower().endswith(_ID_ENDINGS))

    def _found_family(self, *names: str) -> None:
        """Take tools for keepers of plans from now on, and in their earlier calls."""
        fresh = set(names) - self._family
        self._family |= fresh
        for at, act in self.acts.items() if fresh else ():
            if act.kind == "other" and self.items[at].name in fresh:
                self.acts[at] = replace(act, kind="plan")
                self.newest[self.items[at].name] = at
