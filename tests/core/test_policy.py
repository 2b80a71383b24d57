"""Policies from values: groups, single fields, names of 0.1, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari.core.policy import (
    GROUPS,
    REMOVED_FIELDS,
    RENAMED_FIELDS,
    Policy,
    make_policy,
    policy_fields,
    policy_value,
)
from danshari.errors import PolicyError


@given(st.sampled_from(sorted(GROUPS)))
def test_a_group_is_given_as_a_value_or_as_a_table(group: str) -> None:
    value = getattr(Policy(), group)
    assert Policy().with_fields(**{group: value}) == Policy()
    assert make_policy({group: {}}) == Policy()


@given(st.sampled_from(sorted(RENAMED_FIELDS)))
def test_a_name_of_0_1_stands_for_its_field_now(old: str) -> None:
    value = policy_value(Policy(), RENAMED_FIELDS[old])
    assert make_policy({old: value}) == Policy()
    group, _, name = RENAMED_FIELDS[old].partition(".")
    with pytest.raises(PolicyError, match="twice"):
        make_policy(
            {old: value, f"{group}_{name}": value} if old != f"{group}_{name}" else {group: {name: value}, old: value}
        )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"commit": {"fault": 0.2}}, "did you mean commit.refetch"),
        ({"nonsense": 1}, "known: "),
        ({"nonsense": {"a": 1}}, "unknown group"),
        ({"commit": {"mode": "sometimes"}}, "must be one of"),
        ({"elide": {"keep_rounds": -1}}, "0 or more"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        make_policy(values)


def test_a_removed_field_is_refused_in_code() -> None:
    for name, value in REMOVED_FIELDS.items():
        with pytest.raises(PolicyError, match="no field any more"):
            Policy().with_fields(**{name: value})
        assert make_policy({name: value}) == Policy(), "but a file of 0.1 is read"


def test_every_field_has_a_description() -> None:
    assert all(policy_fields().values())
