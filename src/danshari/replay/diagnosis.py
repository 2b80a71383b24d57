"""Measure five typical symptoms of bad compaction on one session under one policy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from danshari.analysis.lines import first_words
from danshari.core.session import SessionState
from danshari.replay.references import SessionNeeds, find_needs
from danshari.replay.replay import ReplayResult, replay
from danshari.sessions import RecordedSession

FREQUENT_COMMITS = 0.15
"""Commits a round from which a session is compacted too often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One symptom: occurrences, opportunities, its cause and the policy field to change."""

    name: str
    seen: int
    of: int
    cause: str
    turn: str
    evidence: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Whether the symptom occurred."""
        return self.seen > 0


def diagnose(session: RecordedSession, policy: str) -> list[Symptom]:
    """Replay a session under a policy and measure the five symptoms."""
    needs = find_needs(session)
    played = replay(session, policy, check=True, measure=True)
    return [
        _find_repeats(needs, played),
        _find_failures(played),
        _find_lost_edits(played),
        _find_empty_recalls(needs),
        _find_frequent_commits(played),
    ]


def diagnose_stored(session: SessionState, rounds: int) -> list[Symptom]:
    """Measure three of the five symptoms on a stored session without its messages.

    `rounds` is the number of assistant turns.
    """
    recalled = sorted(session.recalled, key=lambda pair: -pair[1])
    times = sum(n for _, n in recalled)
    many = session.commits > FREQUENT_COMMITS * rounds and session.commits > 2
    return [
        Symptom(
            name="compaction fails",
            seen=session.failures + session.is_thrashing(rounds),
            of=len(session.handovers) + session.failures,
            cause=f"the summarizer was asked {session.failures} times in a row in vain"
            + ("; the context filled up right after each hand-over" if session.is_thrashing(rounds) else ""),
            turn="summary.seconds up, another summary.model; where the context fills up at once: handover.tail down",
        ),
        Symptom(
            name="what was edited is asked for again",
            seen=times,
            of=len(session.ledger),
            cause=f"{len(recalled)} originals were recalled, {times} times in all",
            turn="elide.process up, elide.keep_rounds up; kinds of tools that were recalled count as riskier from now "
            "on: " + (", ".join(f"{kind} × {factor:.1f}" for kind, factor in session.learned) or "none yet"),
            evidence=tuple(f"{digest[:12]}: {n} times" for digest, n in recalled[:3]),
        ),
        Symptom(
            name="compacts too often",
            seen=session.commits if many else 0,
            of=rounds,
            cause=f"{session.commits} commits in {rounds} rounds",
            turn="commit.cooldown up, commit.least up, commit.release up (a forced commit then frees more at once)",
        ),
    ]


def _find_repeats(needs: SessionNeeds, played: ReplayResult) -> Symptom:
    """Find commands that failed again although nothing had changed."""
    facts = needs.facts
    again = facts.find_repeat_failures(0)
    shown, counted = played.tally.get("attempts", (0.0, 0.0))
    lost = round(counted - shown)
    return Symptom(
        name="failed attempts are repeated",
        seen=len(again) if lost else 0,
        of=len(facts.call_turns),
        cause=(
            f"{len(again)} commands failed again with nothing changed between; failed attempts were out of sight "
            f"{lost} of {round(counted)} times they were looked for"
        ),
        turn="elide.evidence up, elide.keep_rounds up; offer the recall tools (failed=true finds ruled-out approaches)",
        evidence=tuple(
            f"round {facts.items[at].turn}: {first_words(act.command, 80)}"
            for at in again[:3]
            if (act := facts.act_at(at))
        ),
    )


def _find_failures(played: ReplayResult) -> Symptom:
    problems = [f"round {r.number}: {r.problems[0]}" for r in played.rounds if r.problems]
    return Symptom(
        name="compaction fails",
        seen=len(played.faults) + len(problems),
        of=len(played.rounds),
        cause="a fault inside danshari, or a view that broke a rule of the provider",
        turn="none: report it, with the session; the caller's messages or the last good view were sent",
        evidence=tuple([*played.faults, *problems][:3]),
    )


def _find_lost_edits(played: ReplayResult) -> Symptom:
    kept, counted = played.tally.get("edits", (0.0, 0.0))
    return Symptom(
        name="edit points are lost",
        seen=round(counted - kept),
        of=round(counted),
        cause="the text an edit replaces was not in the view: a long read was squeezed, or an old one elided",
        turn="admit.read_over up (longer reads stay whole), elide.keep_files up, elide.process up",
    )


def _find_empty_recalls(needs: SessionNeeds) -> Symptom:
    facts = needs.facts
    places = [at for at, act in facts.acts.items() if act.kind == "recall"]
    empty = [at for at in places if facts.items[facts.result_of.get(at, at)].text.startswith("nothing recalled")]
    return Symptom(
        name="recalls find nothing",
        seen=len(empty),
        of=len(places),
        cause="the words of the query stand in no archived original",
        turn="none: search with identifiers and paths; look at `danshari archive stats` and the expiry",
        evidence=tuple(f"round {facts.items[at].turn}: {facts.items[at].text[:80]}" for at in empty[:3]),
    )


def _find_frequent_commits(played: ReplayResult) -> Symptom:
    commits = [r for r in played.rounds if r.batch]
    why = Counter(r.trigger for r in commits)
    triggers = ", ".join(f"{k} {n}" for k, n in why.items()) or "–"
    often = len(commits) > FREQUENT_COMMITS * len(played.rounds) and len(commits) > 2
    return Symptom(
        name="compacts too often",
        seen=len(commits) if often else 0,
        of=len(played.rounds),
        cause=f"{len(commits)} commits in {len(played.rounds)} rounds ({triggers})",
        turn="commit.cooldown up, commit.least up, commit.release up (a forced commit then frees more at once)",
    )
