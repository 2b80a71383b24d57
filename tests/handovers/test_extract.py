"""The extractor as a whole: its arguments and its time."""

from __future__ import annotations

import json
import time

import pytest

from danshari import handover
from danshari.errors import ArgumentError
from danshari.testing import Call, Turn, conversation


def test_wrong_arguments_say_what_would_be_right() -> None:
    with pytest.raises(ArgumentError, match="size"):
        handover([], size=-1)
    with pytest.raises(ArgumentError, match="language 'xx'; known"):
        handover([{"role": "user", "content": "hi"}], language="xx")
    assert json.loads(json.dumps(handover([{"role": "user", "content": "hi"}]).to_dict()))["language"] == "en"


@pytest.mark.parametrize(
    "text",
    ["x" * 60_000, "a-b." * 20_000, "foo_1,Bar2." * 12_000, "aB3-_" * 16_000, "key:secret_" * 8_000, "http://" * 9_000],
    ids=["one letter", "dots", "minified", "base64url", "secrets", "urls"],
)
def test_no_text_takes_quadratic_time(text: str) -> None:
    """Four times the text takes at most about eight times as long (quadratic would be sixteen)."""

    def cost(part: str) -> float:
        messages = conversation(
            "anthropic",
            part[:9_000],
            [Turn(text="ok", calls=(Call(name="Bash", arguments={"command": "x"}, result=part),)), Turn()],
        )
        times = []
        for _ in range(2):
            started = time.process_time()
            handover(messages, format="anthropic")
            times.append(time.process_time() - started)
        return min(times)

    small, large = cost(text[: len(text) // 4]), cost(text)
    assert large < 8 * small + 0.5
