"""compaction-conformance-kit: its benchmark of typed canaries at 10, 20 and 30 % of the characters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from danshari.bench.compactions import compact_text

BUDGETS = ("10%", "20%", "30%")


class Danshari:
    """The kit's interface: turns in, one text out. Tool turns carry no call there, so they are user text."""

    name = "danshari"

    def compact(self, turns: Any, round_num: int = 1, budget_chars: int | None = None) -> Any:
        """Compact the turns of one round."""
        from compaction_kit.compacted import CompactedContext

        messages = [{"role": "assistant" if t.role == "assistant" else "user", "content": t.text} for t in turns]
        room = budget_chars if budget_chars is not None else sum(len(t.text) + 1 for t in turns)
        text = compact_text(messages, room)
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)


def main() -> None:
    """Run the kit's own command on this file and print what it reports."""
    tool = Path(sys.executable).parent / "compaction-kit"
    spec = f"{Path(__file__)}:Danshari"
    done = subprocess.run(
        [str(tool), "check", spec, "--budgets", ",".join(BUDGETS), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    start = done.stdout.find("{")
    if start < 0:
        sys.stdout.write(json.dumps({"broken": (done.stderr or done.stdout).strip()[-300:]}) + "\n")
        return
    sys.stdout.write(
        json.dumps({"kit": "compaction-conformance-kit", "report": json.loads(done.stdout[start:])}) + "\n"
    )


if __name__ == "__main__":
    main()
