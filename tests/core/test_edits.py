"""Edits over a ledger: void ones, undone ones, and the thinking that they make stale."""

from __future__ import annotations

from danshari.core.edits import Drop, Replace, Restore, find_stale_reasoning, view
from danshari.core.items import ItemBuilder, Piece
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
