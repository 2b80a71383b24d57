"""CompactBench offline: the public templates, our text as the artifact, and readers that are no model.

Two figures. *Retention* needs no reader: the share of asked-for values that still stand in the artifact. The kit's own
score needs one; a plain echo of the artifact is punished for every forbidden word it repeats, even in "never do X",
so that score is printed with its reader's name and nothing is concluded from it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from compactbench import providers
from compactbench.compactors import Compactor
from compactbench.contracts import CompactionArtifact
from compactbench.dsl import DifficultyLevel, load_suite
from compactbench.engine import derive_case_seed, generate_case
from compactbench.runner.persistence import CaseCompleteEvent, iter_events
from compactbench.runner.run import RunArgs, run_experiment
from compactbench.scoring.checks import run_check
from compactbench.scoring.compression import compression_ratio

from danshari.bench.compactions import compact_text

RATIO = 4.0
"""How many times smaller the artifact is than the transcript."""
LIMIT = 8_000
"""Characters an artifact may have."""


class Danshari(Compactor):  # type: ignore[misc]
    """The kit's interface: a transcript in, an artifact out."""

    name, version = "danshari", "1"

    async def compact(self, transcript: Any, config: Any = None, previous_artifact: Any = None) -> Any:  # noqa: ARG002
        """Compact one transcript."""
        turns = [{"role": str(t.role), "content": t.content} for t in transcript.turns]
        size = sum(len(t["content"]) for t in turns)
        text = compact_text(turns, min(LIMIT, int(size / RATIO)))
        return CompactionArtifact(summaryText=text, selectedSourceTurnIds=[])


class Echo(providers.Provider):  # type: ignore[misc]
    """Answers every question with the whole artifact."""

    key = "echo"

    async def complete(self, request: Any) -> Any:
        """Answer one request."""
        context = request.prompt.split("\n\n", 1)[1].rsplit("\n\nBased only on this summary", 1)
        text = context[0] if len(context) == 2 else "Noted."
        return providers.CompletionResponse(text, len(request.prompt) // 4, len(text) // 4, request.model)


def retention(cases: Path, suite: str, level: str) -> dict[str, float]:
    """Count asked-for values that the artifact still holds."""
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


def scored(cases: Path, suite: str) -> dict[str, float]:
    """Run the kit's own experiment with the echo reader."""
    providers._REGISTRY.update(echo=Echo)
    spec = f"{Path(__file__)}:Danshari"
    with tempfile.TemporaryDirectory() as folder:
        args = RunArgs(spec, suite, "echo", "echo", DifficultyLevel("medium"), 2, 3, "default", cases,
                       Path(folder, "r.jsonl"), False)  # fmt: skip
        events = list(iter_events(asyncio.run(run_experiment(args))))
    done = [e.case_result for e in events if isinstance(e, CaseCompleteEvent)]
    mean = sum(d.case_score for d in done) / len(done)
    return {"score": round(mean, 3), "cases": len(done)}


def main() -> None:
    """Run both."""
    cases = Path(sys.argv[1])
    suites = [p.name for p in sorted(cases.iterdir()) if p.is_dir() and load_suite(p)]
    found = {s: {**retention(cases, s, "medium"), "echo reader": scored(cases, s)} for s in suites}
    sys.stdout.write(json.dumps({"kit": "compactbench", "suites": found}) + "\n")


if __name__ == "__main__":
    main()
