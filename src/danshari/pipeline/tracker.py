"""The items of one conversation: read once, extended by new messages, with the ledger's edits applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from danshari import data
from danshari.analysis.facts import Facts
from danshari.analysis.lines import MOST_READ
from danshari.analysis.tiers import tier_of
from danshari.analysis.tools import ToolTable
from danshari.archive.base import Entry, make_entry
from danshari.archive.messages import message_entries
from danshari.core.edits import Drop, Edit, Effects, Fold, Mend, Replace, Restore, View, resolve_edits
from danshari.core.items import Item, ItemBuilder
from danshari.core.policy import MendMode
from danshari.core.text import is_valid_text
from danshari.core.tokens import Estimator
from danshari.formats import Format
from danshari.formats.base import Patches

_MAX_MOVED = 6
"""So many earlier messages may differ in form only (moved cache marks) and still count as the same history."""


class ConversationTrack:
    """Items, facts and edits in force of one conversation.

    `follow` reads appended messages. `apply` and `resolve` apply the ledger.
    """

    def __init__(self, format: Format, tools: ToolTable, count: Estimator, *, scorer: bool = True) -> None:  # noqa: A002
        self.format = format
        self.messages: list[Any] = []
        self.facts = Facts(tools, count, data.line_weights() if scorer else None)
        self.effects = Effects()
        self.sizes: list[float] = []
        """Tokens of each item as the view shows it."""
        self.shown = 0.0
        self.suspect = False
        """Whether some message so far looks like one that the provider may refuse."""
        self._answered: set[int] = set()
        self._noted = 0
        self._chain = ItemBuilder()
        self._patches = Patches(View((), self.effects))

    def follow(self, messages: Sequence[Any], ledger: Sequence[Edit]) -> bool:
        """Read `messages`. Returns False, with nothing changed, if they do not continue what was read before."""
        known = len(self.messages)
        if len(messages) < known:
            return False
        head = messages[:known] if len(messages) > known else messages
        self._patches.same = head == self.messages
        if not self._patches.same and not self._has_same_pieces(head):
            return False
        if self._patches.same:
            self.messages += messages[known:]  # equal objects stay ours: freeing megabytes costs more than the rest
        else:
            self.messages = list(messages)
        before = len(self._chain.items)
        self.format.read_tail(messages, self._chain, known)
        self.facts.extend(self._chain.items[before:])
        self.suspect = self._find_suspects(before, len(messages) - known) or self.suspect
        fresh = self.facts.tokens[before:]
        self.sizes += fresh
        self.shown += sum(fresh)
        if self.effects.void or (ledger and not known):
            self.resolve(ledger)
        return True

    def _has_same_pieces(self, head: Sequence[Any]) -> bool:
        """Return whether messages that differ in form hold the same pieces at the same places."""
        moved = [n for n, (old, new) in enumerate(zip(self.messages, head, strict=True)) if old != new]
        return len(moved) <= _MAX_MOVED and all(have_same_pieces(self.format, self.messages[n], head[n]) for n in moved)

    def _find_suspects(self, since: int, messages: int) -> bool:
        """Return whether the new items, of so many messages, hold something that may need mending."""
        items, call_of, found = self.facts.items, self.facts.call_of, False
        for at in range(since, len(items)):
            item = items[at]
            found = found or not is_valid_text(item.text) or (item.kind == "text" and not item.text.strip())
            if item.kind == "result":
                call = call_of.get(at)
                strange = call is None or call in self._answered or items[call].turn != item.turn
                found = found or strange or items[at - 1].role not in ("assistant", "tool")
                self._answered.add(-1 if call is None else call)
        return found or len({item.at[0] for item in items[since:]}) < messages

    def note_unread(self) -> list[str]:
        """Return a note if an item that came since the last call is so long that only its two ends are read."""
        sizes = [size for item in self.facts.items[self._noted :] if (size := len(item.text)) > MOST_READ]
        self._noted = len(self.facts.items)
        if not sizes:
            return []
        what = f"{len(sizes)} texts" if len(sizes) > 1 else "a text"
        return [f"{what} of {sum(sizes):,} characters: beyond {MOST_READ:,} only the two ends are read line by line"]

    def surviving_indices(self) -> list[int]:
        """List the indices of the source messages still in the view, empty if the view has a hand-over."""
        if self.effects.folds:
            return []
        copies = self._patches.copies
        return [at for at in range(len(self.messages)) if at not in copies or copies[at][1] is not None]

    def resolve(self, ledger: Sequence[Edit]) -> None:
        """Apply the whole ledger from the start and count the view's tokens anew."""
        facts = self.facts
        self.effects = resolve_edits(ledger, facts.items, facts.index)
        self.sizes = list(facts.tokens)
        for at, edit in self.effects.texts.items():
            self.sizes[at] = self._replacement_tokens(at, edit)
        for at in self.effects.gone:
            self.sizes[at] = 0.0
        self._patches = Patches(View(facts.items, self.effects))
        extra = sum(facts.count(fold.text) for _, fold in self.effects.folds.values())
        self.shown = sum(self.sizes) + extra

    def apply(self, edits: Iterable[Edit], ledger: Sequence[Edit]) -> None:
        """Apply edits that were just appended to `ledger`. Falls back to `resolve` for all but plain replacements."""
        for edit in edits:
            at = self.facts.index.get(edit.id) if isinstance(edit, Replace) else None
            if (
                at is None
                or not isinstance(edit, Replace)
                or at in self.effects.gone
                or edit.seen not in self.facts.index
            ):
                self.resolve(ledger)
                return
            self.effects.texts[at] = edit
            self._patches.change(self.facts.items[at].at, edit.text or None)
            size = self._replacement_tokens(at, edit)
            self.shown += size - self.sizes[at]
            self.sizes[at] = size

    def _replacement_tokens(self, at: int, edit: Replace) -> float:
        """Estimate the tokens of an item once `edit` has replaced its text."""
        return self.facts.count.estimate_item(self.facts.items[at].kind, edit.text) if edit.text else 0.0

    def write(self, payload: Any, effects: Effects | None = None) -> Any:
        """Return the caller's payload changed so that it reads as the view."""
        shown = View(self.facts.items, effects or self.effects)
        return self.format.write(payload, shown, self._patches if effects is None else None)

    def write_mended(self, payload: Any, mode: MendMode) -> WrittenView:
        """Return the payload as the view shows it, mended where it came in broken and the policy allows it."""
        shown = self.write(payload)
        facts = self.facts
        interrupted = facts.pending and facts.items[-1].kind == "text" and facts.items[-1].role != "assistant"
        if mode == "off" or not (self.suspect or facts.unanswered or interrupted):
            return WrittenView(shown)
        from danshari.formats.mending import mend_messages  # only a broken conversation pays for it

        mended = mend_messages(self.format, self.format.messages(shown), facts.pending.values())
        if not mended.mends or mode == "report":
            return WrittenView(shown, notes=tuple(f"the provider may refuse {mend}" for mend in mended.mends))
        whole = {**shown, self.format.key: mended.messages} if isinstance(shown, Mapping) else mended.messages
        return WrittenView(whole, mended.mends, (), mended.origins)


class WrittenView(NamedTuple):
    """The messages to send, in the shape of the caller's payload."""

    payload: Any
    mends: tuple[Mend, ...] = ()
    """What was mended."""
    notes: tuple[str, ...] = ()
    """What should be mended, where the policy only reports it."""
    origins: list[int] | None = None
    """For every message its index in the view before mending; None if nothing was mended."""


def have_same_pieces(wire: Format, old: Any, new: Any) -> bool:
    """Return whether two spellings of a message hold the same pieces."""
    return list(map(_piece_key, wire.split(old))) == list(map(_piece_key, wire.split(new)))


def _piece_key(piece: Any) -> tuple[Any, ...]:
    """Return what two pieces must have in common to count as the same."""
    return (
        piece.kind,
        piece.role,
        piece.name,
        piece.call,
        piece.body if piece.body is not None else piece.text,
        piece.failed,
    )


def edit_positions(track: ConversationTrack, edit: Edit) -> list[int]:
    """List the positions of the items that an edit covers, in order, empty if it does not apply here."""
    index = track.facts.index
    if isinstance(edit, Replace | Restore):
        return [index[edit.id]] if edit.id in index else []
    if edit.first not in index or edit.last not in index:
        return []
    return list(range(index[edit.first], index[edit.last] + 1))


def archive_entries(track: ConversationTrack, edits: Sequence[Edit]) -> list[Entry]:
    """Return archive entries for every item that `edits` replace or remove, and for the messages that hold them."""
    facts = track.facts
    entries = []
    touched: dict[int, list[Item]] = {}
    for edit in edits:
        for at in edit_positions(track, edit) if isinstance(edit, Replace | Drop | Fold) else ():
            call, act, item = facts.call_of.get(at), facts.act_at(at), facts.items[at]
            touched.setdefault(item.at[0], []).append(item)
            made = make_entry(item, facts.items[call].text[:300] if call is not None else "")
            entries.append(replace(
                made, path=act.path if act else "", start=act.start if act and act.kind == "read" else 0,
                tier=tier_of(facts, at), phase=facts.phases.phase_at(item.turn), failed=made.failed or (
                    item.kind == "result" and not facts.is_success(item)),
            ))  # fmt: skip
    for number, items in touched.items() if track.format.can_store else ():  # else nobody could read them back
        message = track.messages[number]
        if track.format.is_message(track.format.as_message(message)):
            entries += message_entries(track.format.to_json(message), items)
    return entries
