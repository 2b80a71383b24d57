"""Run CompactBench offline with danshari's text as the artifact and rule-based readers instead of a model.

Retention needs no reader: the share of requested values that the artifact still holds. The kit's
own score needs one. A reader that echoes the artifact is punished for every forbidden word it
repeats, even inside "never do X", so that score is always printed with the name of its reader and
supports no conclusion.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from compactbench import providers
from compactbench.compactors import Compactor
from compactbench.contracts import CompactionArtifact, StructuredState
from compactbench.dsl import DifficultyLevel, load_suite
from compactbench.engine import derive_case_seed, generate_case
from compactbench.runner.persistence import CaseCompleteEvent, iter_events
from compactbench.runner.run import RunArgs, run_experiment
from compactbench.scoring.checks import run_check
from compactbench.scoring.compression import compression_ratio

from danshari import data
from danshari.core.handover import Handover
from danshari_bench.compactions import build_document

KIT_RATIO = 4.0
"""How many times smaller the artifact must be than the transcript, by the kit's own count of tokens."""
SECTION_FRAME = 320
"""Characters of our document's frame, which the kit's sections do not have."""
LONGEST_STRING = 500
"""Characters a string of a section may have."""
_BINDING = ("locked_decision_retention", "forbidden_behavior_retention")
_PROPOSES = re.compile(r"^(?:propose|suggest|draft|describe|how should|what should|should)\b", re.IGNORECASE)
_RULES = re.compile(r"\b(?:rules?|never|permitted|allowed|preference|constraint|forbidden|ban)\b", re.IGNORECASE)
_BANS = re.compile(r"\b(?:never|must not|do not|don't|avoid|forbidden|no longer|not)\b", re.IGNORECASE)


class Danshari(Compactor):  # type: ignore[misc]
    """CompactBench's compactor interface: takes a transcript, returns an artifact with the kit's own sections."""

    name, version = "danshari", "1"

    async def compact(self, transcript: Any, config: Any = None, previous_artifact: Any = None) -> Any:  # noqa: ARG002
        """Compact one transcript; the size is reduced until the kit's ratio is reached."""
        turns = [{"role": str(t.role), "content": t.content} for t in transcript.turns]
        room = int(sum(len(t["content"]) for t in turns) / KIT_RATIO)
        while True:
            made = build_artifact(build_document(turns, room + SECTION_FRAME), room)
            if room < 40 or compression_ratio(transcript, made) >= KIT_RATIO:
                return made
            room = int(room * 0.9)


def build_artifact(document: Handover, room: int) -> Any:
    """Sort the user's words into the kit's sections, newest first, within `room` characters."""
    markers = data.load_markers()
    sections: dict[str, list[str]] = {name: [] for name in StructuredState.model_fields if name != "entity_map"}
    words = [line for name in ("rules", "words") for p in document[name] for line in p.text.split("\n")]
    for line in [line[:LONGEST_STRING] for line in words if line.strip()]:
        if len(line) + 1 > room:
            continue
        room -= len(line) + 1
        if _BANS.search(line):
            sections["forbidden_behaviors"].append(line)
        elif markers.cues["plan"].search(line) or markers.cues["decision"].search(line):
            sections["locked_decisions"].append(line)
        else:
            sections["immutable_facts"].append(line)
    return CompactionArtifact(summaryText="", structured_state=StructuredState(**sections), selectedSourceTurnIds=[])


class EchoReader(providers.Provider):  # type: ignore[misc]
    """A reader that answers every question with the whole artifact."""

    key = "echo"

    async def complete(self, request: Any) -> Any:
        """Answer one request."""
        context = request.prompt.split("\n\n", 1)[1].rsplit("\n\nBased only on this summary", 1)
        text = self.answer_question(*context) if len(context) == 2 else "Noted."
        return providers.CompletionResponse(text, len(request.prompt) // 4, len(text) // 4, request.model)

    def answer_question(self, artifact: str, question: str) -> str:  # noqa: ARG002
        """Return the answer to a question: the whole artifact."""
        return artifact


class SectionReader(EchoReader):
    """A reader that answers with matching lines: bans for questions about rules, everything else otherwise."""

    key = "section"

    def answer_question(self, artifact: str, question: str) -> str:
        """Return the lines of the matching kind; only the question decides which."""
        asked = question.split("QUESTION:", 1)[-1].split("ANSWER:", 1)[0].strip()
        lines = [line for line in artifact.split("\n") if line.startswith("- ")]
        bans = [line for line in lines if _BANS.search(line)]
        if not _PROPOSES.search(asked) and _RULES.search(asked):
            return "\n".join(bans) or "none"
        return "\n".join(line for line in lines if line not in bans) or "none"


def measure_retention(cases: Path, suite: str, level: str) -> dict[str, float]:
    """Return the share of requested values the artifact still holds, their number and the compression ratio."""
    kept, ratios = [], []
    for template in load_suite(cases / suite):
        for slot in range(3):
            case = generate_case(template, derive_case_seed(f"{suite}@1.0.0", "default", slot), DifficultyLevel(level))
            artifact = asyncio.run(Danshari(None, "none").compact(case.transcript))
            text = str(artifact.model_dump())
            asked = [i.expected for i in case.evaluation_items if i.expected["check"] != "forbidden_absent"]
            kept += [run_check(expected, text) for expected in asked]
            ratios.append(compression_ratio(case.transcript, artifact))
    return {"kept": round(sum(kept) / len(kept), 3), "n": len(kept), "ratio": round(sum(ratios) / len(ratios), 2)}


def score_with_reader(cases: Path, suite: str, level: str, reader: type[EchoReader]) -> dict[str, float]:
    """Run the kit's experiment with one reader and return its scores; `elite` is the kit's combined score.

    elite = .4 × case score + .3 × drift resistance + .2 × share of binding items kept + .1 × bonus. The
    bonus is how far the ratio exceeds `KIT_RATIO`, relative to it, from 0 to 1.
    """
    providers._REGISTRY.update({reader.key: reader})
    spec = f"{Path(__file__)}:Danshari"
    with tempfile.TemporaryDirectory() as folder:
        args = RunArgs(spec, suite, reader.key, "none", DifficultyLevel(level), 2, 3, "default", cases,
                       Path(folder, "r.jsonl"), False)  # fmt: skip
        events = list(iter_events(asyncio.run(run_experiment(args))))
    done = [e.case_result for e in events if isinstance(e, CaseCompleteEvent)]
    mean = sum(d.case_score for d in done) / len(done)
    drift = sum(d.drift_resistance for d in done) / len(done)
    cards = [c.scorecard for d in done for c in d.cycles]
    bound = [i.score for c in cards for i in c.item_scores if i.item_type in _BINDING]
    kept = sum(bound) / len(bound) if bound else 0.0
    ratio = sum(c.compression_ratio for c in cards) / len(cards)
    bonus = min(max((ratio - KIT_RATIO) / KIT_RATIO, 0.0), 1.0)
    elite = 0.4 * mean + 0.3 * drift + 0.2 * kept + 0.1 * bonus
    return {"elite": round(elite, 3), "score": round(mean, 3), "drift": round(drift, 3), "constraints": round(kept, 3),
            "ratio": round(ratio, 2), "cases": len(done)}  # fmt: skip


def main() -> None:
    """Run all suites and print the result as JSON."""
    cases = Path(sys.argv[1])
    suites = [p.name for p in sorted(cases.iterdir()) if p.is_dir() and load_suite(p)]
    found: dict[str, Any] = {}
    for suite in suites:
        for level in ("medium", "elite") if suite.startswith("elite") else ("medium",):
            found[f"{suite}, {level}"] = {
                **measure_retention(cases, suite, level),
                "echo reader": score_with_reader(cases, suite, level, EchoReader),
                "section reader": score_with_reader(cases, suite, level, SectionReader),
            }
    sys.stdout.write(json.dumps({"kit": "compactbench", "suites": found}) + "\n")


if __name__ == "__main__":
    main()
