"""The recorder runs its real tools and mends the example code base."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from danshari.formats import FORMATS
from danshari.sessions import read

ROOT = Path(__file__).parent.parent


def test_a_session_is_recorded_with_real_tools(tmp_path: Path) -> None:
    code = (
        "import sys, json; sys.path.insert(0, 'examples'); import record; "
        "open(sys.argv[1], 'w').write(json.dumps(record.record('shop-responses')))"
    )
    out = tmp_path / "session.json"
    subprocess.run([sys.executable, "-c", code, str(out)], cwd=ROOT, check=True, capture_output=True)
    (session,) = read(out)
    items = FORMATS["openai-responses"].read(session.messages)
    assert items[-1].turn >= 60
    assert FORMATS["openai-responses"].check(session.messages) == []
    results = [i.text for i in items if i.kind == "result"]
    assert any("FAILED (failures=16" in text for text in results), "the tests fail at first"
    assert any("Ran 21 tests" in text and text.endswith("OK") for text in results), "and pass in the end"
    assert not any(str(tmp_path) in text or "/tmp" + "/" in text for text in results)
