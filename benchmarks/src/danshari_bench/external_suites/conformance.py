"""Run compaction-conformance-kit: typed test statements, kept at 10, 20 and 30 % of the characters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from danshari_bench.compactions import compact_text

KIT_BUDGETS = ("10%", "20%", "30%")


class Danshari:
    """The kit's compactor interface: takes turns, returns one text; tool turns count as user text."""

    name = "danshari"

    def compact(self, turns: Any, round_num: int = 1, budget_chars: int | None = None) -> Any:
        """Compact the turns of one round."""
        from compaction_kit.compacted import CompactedContext

        messages = [{"role": "assistant" if t.role == "assistant" else "user", "content": t.text} for t in turns]
        room = budget_chars if budget_chars is not None else sum(len(t.text) + 1 for t in turns)
        text = compact_text(messages, room)
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)


def run_kit_command(*arguments: str) -> dict[str, Any]:
    """Run the kit's command line and return the JSON it prints, or `broken` with its error text."""
    tool = Path(sys.executable).parent / "compaction-kit"
    done = subprocess.run([str(tool), *arguments, "--format", "json"], capture_output=True, text=True, check=False)
    start = done.stdout.find("{")
    if start < 0:
        return {"broken": (done.stderr or done.stdout).strip()[-300:]}
    return dict(json.loads(done.stdout[start:]))


def main() -> None:
    """Run the kit's fixed session and its random and semantic ones, and print what it reports."""
    spec = f"{Path(__file__)}:Danshari"
    fixed = run_kit_command("check", spec, "--budgets", ",".join(KIT_BUDGETS))
    wider = run_kit_command(
        "benchmark", "--spec", spec, "--budgets", ",".join(str(int(b[:-1]) / 100) for b in KIT_BUDGETS)
    )
    rows = [e for e in wider.get("entries", ()) if e.get("compactor") == "danshari"]
    budgets = [
        {
            "budget": c["budget_fraction"],
            "compliant": c["compliant"],
            "kept": c["final_survived"],
            "of": c["final_total"],
        }
        for c in fixed.get("budget_checks", ())
    ]
    found = {"kit": "compaction-conformance-kit", "fixed session": budgets, "other sessions": rows, "report": fixed}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
