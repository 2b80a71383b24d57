"""The atoms that a text refers to."""

from __future__ import annotations

import json

import pytest

from danshari.replay.atoms import AtomExtractor, atom_definition, classify_atom


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see cmd/entire/cli/rewind.go:41", {"rewind.go"}),
        ("cfg.max_length and fold_entries(x)", {"cfg.max_length", "max_length", "fold_entries"}),
        ("call parseArgs in HTMLParser2", {"parseArgs", "HTMLParser2"}),
        ("commit 6d17c71 took 120034 ms of 450", {"6d17c71", "120034"}),
        ('raise "not a git repository here"', {"not a git repository here"}),
        ("if isinstance(x, str): return None", set()),
        ("fmt.Errorf and os.path.join and TypeError", set()),
        ("from django.conf import settings; json.go, app.conf", {"json.go", "app.conf"}),
        ("https://example.com/a/b.html", {"example.com", "b.html"}),
    ],
)
def test_atoms(text: str, found: set[str]) -> None:
    assert AtomExtractor()(text) == found


def test_atom_classes_and_version() -> None:
    for atom, kind in {"a_b": "identifier", "x.go": "file", "cfg.total": "dotted", "120034": "number",
                       "6d17c71": "hash", "not a repo": "quoted"}.items():  # fmt: skip
        assert classify_atom(atom) == kind
    assert len(atom_definition().hash) == 8
    assert json.dumps(atom_definition().version)
