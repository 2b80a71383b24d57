"""Edits over a ledger: void ones, undone ones, and the thinking that they make stale."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from danshari.core.edits import Drop, Edit, Fold, Replace, Restore, digest_items, find_stale_reasoning, view
from danshari.core.items import Item, ItemBuilder, Piece
from danshari.formats import FORMATS
from danshari.testing import Call, Turn, conversation


def test_an_edit_is_void_where_its_target_or_witness_is_missing() -> None:
    chain = ItemBuilder()
    chain.extend(0, [Piece(kind="text", role="user", text="go")])
    chain.begin_turn()
    chain.extend(1, [Piece(kind="call", role="assistant", text="{}", name="read", call="c1")])
    chain.extend(2, [Piece(kind="result", role="tool", text="long", call="c1")])
    items = tuple(chain.items)
    edit = Replace(id=items[2].id, text="short", seen=items[2].id)
    assert [i.text for i in view(items, [edit]).conversation()][-1] == "short"
    assert [i.text for i in view(items, [edit, Restore(id=items[2].id)]).conversation()][-1] == "long"
    assert len(view(items[:2], [edit]).effects.void) == 1
    assert [i.kind for i in view(items, [Drop(first=items[1].id, last=items[2].id)]).conversation()] == ["text"]


def plain_items(count: int = 8) -> tuple[Item, ...]:
    chain = ItemBuilder()
    for at in range(count):
        chain.extend(at, [Piece(kind="text", role="user" if at % 3 == 0 else "assistant", text=f"word {at}")])
    return tuple(chain.items)


@st.composite
def edits(draw: Any, items: tuple[Item, ...]) -> Edit:
    """Any edit, void ones too."""
    first, last = sorted(draw(st.tuples(*[st.integers(0, len(items) - 1)] * 2)))
    kind = draw(st.sampled_from(["fold", "fold", "drop", "replace", "restore"]))
    return {
        "fold": Fold(first=items[first].id, last=items[last].id, covers=digest_items(items[first : last + 1]),
                     text=f"hand-over {first} to {last}", keep=(items[draw(st.integers(0, len(items) - 1))].id,)),
        "drop": Drop(first=items[first].id, last=items[last].id),
        "replace": Replace(id=items[first].id, text=f"short {last}"),
        "restore": Restore(id=items[first].id),
    }[kind]  # fmt: skip


def made_folds(*spans: tuple[int, int]) -> list[Edit]:
    items = plain_items()
    return [
        Fold(first=items[a].id, last=items[b].id, covers=digest_items(items[a : b + 1]), text=f"{a} to {b}")
        for a, b in spans
    ]


@given(st.lists(edits(plain_items()), max_size=6))
@example(made_folds((2, 3), (4, 7), (1, 5)))
def test_a_void_edit_changes_nothing(ledger: list[Edit]) -> None:
    items = plain_items()
    shown = view(items, ledger)
    void = set(map(id, shown.effects.void))
    without = view(items, [edit for edit in ledger if id(edit) not in void])
    assert shown.conversation() == without.conversation()
    assert without.effects.void == []


def test_dead_thinking_after_edit_and_undo() -> None:
    """turn(target) < T <= turn(seen) is dead; after an undo, what was made under the edit is dead instead."""
    turns = [Turn(thinking=f"t{n}", calls=(Call(name="Read", arguments={"n": n}, result="x" * 900),)) for n in range(6)]
    items = FORMATS["anthropic"].read(conversation("anthropic", "go", turns))
    index = {item.id: at for at, item in enumerate(items)}
    target = next(i for i in items if i.kind == "result" and i.turn == 2)
    seen = next(i for i in items if i.kind == "result" and i.turn == 4)

    def dead(ledger: list[Replace | Restore]) -> list[int]:
        return [items[at].turn for at in find_stale_reasoning(ledger, view(items, ledger).effects, items, index)]

    edit = Replace(id=target.id, text="short", seen=seen.id)
    assert dead([edit]) == [3, 4]
    assert dead([edit, Restore(id=target.id, seen=items[-1].id)]) == [5, 6]
