"""Edits as data, and the view that results from applying them to a conversation.

An edit replaces, folds, drops or restores items. A ledger is the sequence of all edits;
the originals are never changed.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from danshari.core.items import (
    Conversation,
    Digest,
    Item,
    ItemId,
    hash_strings,
)

Reason = Literal[
    "", "cleaned", "first sight", "shown above", "line numbers",
    "old result", "old arguments",
    "same result later", "read again later", "written anew later", "solved later", "newer plan",
    "room", "hand-over", "thinking", "undo", "pin", "recall",
]  # fmt: skip
"""Why an edit was made, for programs: by `admit` (first row), `elide`, `superseded`, and others. Empty: a pass of the
caller's own, which says it in `why`."""
MendKind = Literal["unanswered call", "misplaced result", "stray result", "half surrogate", "empty content"]
EDIT_FORMAT = 1
"""Format number of stored edits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """The item's text becomes `text`; an empty text removes a reasoning block."""

    id: ItemId
    text: str
    by: str = ""
    why: str = ""
    """The reason in words, for people."""
    seen: ItemId = ItemId("")
    """The newest item when the edit was committed."""
    reason: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A span of items becomes one user message, the hand-over.

    Items from `first` to `last` leave the view, those in `keep` excepted, which follow the hand-over in
    order.
    """

    first: ItemId
    last: ItemId
    covers: Digest
    text: str
    keep: tuple[ItemId, ...] = ()
    alternate: bool = False
    """Whether it keeps user and assistant taking turns."""
    apart: bool = False
    """Whether it stands in a message of its own even behind one of the user's."""
    by: str = ""
    why: str = ""
    seen: ItemId = ItemId("")
    reason: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """The assistant and tool items from `first` to `last` leave the view; user and system items stay."""

    first: ItemId
    last: ItemId
    by: str = ""
    why: str = ""
    seen: ItemId = ItemId("")
    reason: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The item is shown in its original form again, whatever earlier edits did to it."""

    id: ItemId
    by: str = ""
    why: str = ""
    seen: ItemId = ItemId("")
    reason: Reason = ""


Edit = Replace | Fold | Drop | Restore
Ledger = tuple[Edit, ...]
_TYPES: dict[str, type[Any]] = {t.__name__.lower(): t for t in (Replace, Fold, Drop, Restore)}


def edit_to_dict(edit: Edit) -> dict[str, Any]:
    """Turn an edit into plain JSON values, its type under `edit`."""
    return {"edit": type(edit).__name__.lower(), **asdict(edit)}


def edit_from_dict(data: Mapping[str, Any]) -> Edit:
    """Turn `edit_to_dict`'s result back into an edit; raises KeyError or TypeError on anything else."""
    fields = dict(data)
    kind = _TYPES[fields.pop("edit")]
    if "keep" in fields:
        fields["keep"] = tuple(fields["keep"])
    if "reason" not in fields:  # danshari 0.1 told it in words only
        fields["reason"] = _reason_in_words(fields.get("by", ""), fields.get("why", ""))
    edit: Edit = kind(**fields)
    return edit


def _reason_in_words(by: str, why: str) -> Reason:
    """Return the reason of an edit that was stored by danshari 0.1, as far as anything depends on it."""
    if by == "admit":
        return "cleaned" if why == "cleaned" else "shown above" if why.startswith("shown again") else "first sight"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """One thing that was mended so that the provider accepts the request."""

    kind: MendKind
    at: int
    """Index of the message in the list that was mended."""
    text: str

    def __str__(self) -> str:
        """Return `message 4: what (kind)`."""
        return f"message {self.at}: {self.text} ({self.kind})"


def digest_items(items: Iterable[Item]) -> Digest:
    """Return one digest for a sequence of items, by which a Fold recognises the span it was made for."""
    return Digest(hash_strings(*(item.digest for item in items)))


@dataclass(slots=True, kw_only=True)
class Effects:
    """The result of applying a ledger to one conversation, by item position; the newest edit wins."""

    texts: dict[int, Replace] = field(default_factory=dict)
    gone: dict[int, Edit] = field(default_factory=dict)
    folds: dict[int, tuple[int, Fold]] = field(default_factory=dict)
    """Start position → (end position, Fold)."""
    void: list[Edit] = field(default_factory=list)

    def is_shown(self, position: int) -> bool:
        """Return whether the item at `position` is still in the view, changed or not."""
        return position not in self.gone


def resolve_edits(ledger: Iterable[Edit], items: Sequence[Item], index: Mapping[ItemId, int]) -> Effects:
    """Apply edits to the original items and return their effects.

    An edit is void, and listed as such, if its target or its `seen` item is missing, or if a Fold's
    digest differs.
    """
    effects = Effects()
    for edit in ledger:
        if (edit.seen and edit.seen not in index) or not _apply_edit(effects, edit, items, index):
            effects.void.append(edit)
    return effects


def _apply_edit(effects: Effects, edit: Edit, items: Sequence[Item], index: Mapping[ItemId, int]) -> bool:
    """Apply one edit to `effects`; return False if it does not fit the items."""
    if isinstance(edit, Replace | Restore):
        at = index.get(edit.id)
        if at is None or (isinstance(edit, Replace) and at in effects.gone):
            return False
        if isinstance(edit, Replace):
            effects.texts[at] = edit
        else:
            effects.texts.pop(at, None)
            effects.gone.pop(at, None)
            _remove_unused_folds(effects, at)
        return True
    first, last = index.get(edit.first), index.get(edit.last)
    if first is None or last is None or last < first:
        return False
    span = range(first, last + 1)
    if isinstance(edit, Drop):
        for at in span:
            if items[at].role in ("assistant", "tool"):
                effects.gone[at] = edit
        return True
    return _apply_fold(effects, edit, span, items, index)


def _remove_unused_folds(effects: Effects, at: int) -> None:
    """Remove the fold around position `at` once none of the items it covers is hidden any more."""
    for start, (end, _) in list(effects.folds.items()):
        if start <= at <= end and not any(n in effects.gone for n in range(start, end + 1)):
            del effects.folds[start]


def _apply_fold(effects: Effects, edit: Fold, span: range, items: Sequence[Item], index: Mapping[ItemId, int]) -> bool:
    """Apply a fold; return False if its digest differs or it overlaps an earlier fold not wholly inside it.

    Earlier folds that lie inside the span are replaced. Items in `keep` are shown, even if dropped before.
    """
    if digest_items(items[at] for at in span) != edit.covers:
        return False
    overlapping = {start: end for start, (end, _) in effects.folds.items() if start <= span[-1] and span[0] <= end}
    if any(start < span[0] or end > span[-1] for start, end in overlapping.items()):
        return False
    for start in overlapping:
        del effects.folds[start]
    kept = {index[i] for i in edit.keep if i in index}
    for at in span:
        if at in kept:
            effects.gone.pop(at, None)
        else:
            effects.gone[at] = edit
    effects.folds[span[0]] = (span[-1], edit)
    return True


@dataclass(frozen=True, slots=True)
class View:
    """What the model will read: the original items together with the effects of the ledger."""

    items: Sequence[Item]
    effects: Effects

    def conversation(self) -> Conversation:
        """List the shown items with their shown text; ids stay those of the originals."""
        shown: list[Item] = []
        for at, item in enumerate(self.items):
            if at in self.effects.folds:
                _, fold = self.effects.folds[at]
                shown.append(_handover_item(item, fold))
            if at not in self.effects.gone:
                edit = self.effects.texts.get(at)
                if edit is None:
                    shown.append(item)
                elif edit.text:
                    shown.append(replace(item, text=edit.text))
        return tuple(shown)


def _handover_item(item: Item, fold: Fold) -> Item:
    """Build the user item that shows a fold's hand-over text."""
    digest = Digest(hash_strings("text", "user", "", fold.text, ""))
    return Item(
        id=ItemId(hash_strings(fold.first, digest)[:24]),
        digest=digest,
        role="user",
        kind="text",
        text=fold.text,
        turn=item.turn,
        at=item.at,
    )


def view(conversation: Sequence[Item], ledger: Iterable[Edit]) -> View:
    """Return the view that results from applying `ledger` to `conversation`."""
    index = {item.id: at for at, item in enumerate(conversation)}
    return View(conversation, resolve_edits(ledger, conversation, index))


def find_stale_reasoning(
    ledger: Iterable[Edit], effects: Effects, items: Sequence[Item], index: Mapping[ItemId, int]
) -> list[int]:
    """Find shown reasoning blocks that are bound to a prefix which has changed since they were made.

    A block of turn T is stale if what is shown of some earlier item changed at or after turn T. For a
    single edit that means turn(target) < T <= turn(seen). A Restore counts as a change like any other.
    """
    spans = _stale_turns(ledger, effects, items, index)
    if not spans:
        return []
    spans.sort()
    starts = [start for start, _ in spans]
    reach: list[int] = []
    for _, end in spans:
        reach.append(max(end, reach[-1] if reach else -1))
    dead = []
    for at, item in enumerate(items):
        if item.bound and effects.is_shown(at) and at not in effects.texts:
            before = bisect.bisect_left(starts, item.turn)
            if before and reach[before - 1] >= item.turn:
                dead.append(at)
    return dead


def _stale_turns(
    ledger: Iterable[Edit], effects: Effects, items: Sequence[Item], index: Mapping[ItemId, int]
) -> list[tuple[int, int]]:
    """List turn intervals (after, up to] in which an edited item was shown differently than it is now."""
    history: dict[int, list[tuple[int, object]]] = {}
    void = set(map(id, effects.void))
    for edit in ledger:
        if id(edit) in void:
            continue
        seen = items[index[edit.seen]].turn if edit.seen in index else items[-1].turn
        state: object = None if isinstance(edit, Restore) else edit
        for at in _targets(edit, items, index):
            history.setdefault(at, []).append((seen, state))
    spans = []
    for at, changes in history.items():
        final, before, since = changes[-1][1], None, items[at].turn
        for seen, state in changes:
            if before != final and since < seen:
                spans.append((since, seen))
            before, since = state, max(since, seen)
    return spans


def _targets(edit: Edit, items: Sequence[Item], index: Mapping[ItemId, int]) -> list[int]:
    if isinstance(edit, Replace | Restore):
        at = index[edit.id]
        return [] if items[at].kind == "reasoning" else [at]
    first = index[edit.first]
    if isinstance(edit, Fold) and first > 0:
        first -= 1  # the hand-over's text is put behind the item before the span
    return list(range(first, index[edit.last] + 1))
