"""Check every view of a session, in any format, against provider rules and for unexpected prefix changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from danshari.formats import convert
from danshari.replay.replay import replay
from danshari.sessions import RecordedSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityCounts:
    """Counts over one or more sessions."""

    policy: str
    wire: str
    sessions: int
    views: int
    invalid: int
    unstable: int
    faults: int
    rewrites: int
    examples: tuple[str, ...] = ()


def check_views(job: tuple[RecordedSession, str, str]) -> ValidityCounts:
    """Replay one session in one format under one policy and count invalid views."""
    session, wire, policy = job
    if wire != session.format:
        converted = convert(session.messages, wire, source=session.format).payload
        session = replace(session, format=wire, messages=converted, times={}, usages={})
    result = replay(session, policy, check=True)
    bad = [r for r in result.rounds if r.problems]
    return ValidityCounts(
        policy=policy,
        wire=wire,
        sessions=1,
        views=len(result.rounds),
        invalid=len(bad),
        faults=len(result.faults),
        unstable=sum(r.batch and not r.edits for r in result.rounds),
        rewrites=result.rewrites,
        examples=tuple(f"{session.id} round {r.number}: {r.problems[0]}" for r in bad[:2]),
    )


def add_validity_counts(policy: str, wire: str, rows: Sequence[ValidityCounts]) -> ValidityCounts:
    """Add the counts of one policy and format."""
    mine = [r for r in rows if r.policy == policy and r.wire == wire]
    return ValidityCounts(
        policy=policy,
        wire=wire,
        sessions=len(mine),
        views=sum(r.views for r in mine),
        invalid=sum(r.invalid for r in mine),
        unstable=sum(r.unstable for r in mine),
        faults=sum(r.faults for r in mine),
        rewrites=sum(r.rewrites for r in mine),
        examples=tuple(e for r in mine for e in r.examples)[:5],
    )
