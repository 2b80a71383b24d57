"""What a reading with fresh eyes found, each as its law and an example."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest

from danshari import Compactor, Reply, Summarizer, data, handover, handover_text
from danshari.core.edits import Fold
from danshari.core.summary import Request
from danshari.errors import ArgumentError, PolicyError
from danshari.formats import find_format
from danshari.handovers.validate import CheckContext, check_answer
from danshari.pipeline.masking import mask_secrets
from danshari.summarizers.endpoint import build_summary_body
from danshari.testing import Call, ScriptedSummarizer, Turn, conversation

POLICY = replace(data.load_policy("balanced"), keep_tail=0.0)
GOOD = json.dumps({"add": {"notes": ["a_5 was read."]}})


def reads(rounds: int, format_name: str = "openai-chat", request: str = "Read all.", thinking: str = "") -> list[Any]:
    turns = [
        Turn(
            text=f"step {n}", thinking=thinking,
            calls=(
                Call(name="Read", arguments={"path": f"a_{n}"}, result=f"def a_{n}(): ...\n" * 60),
                Call(name="Read", arguments={"path": f"b_{n}"}, result=f"def b_{n}(): ...\n" * 60),
            ),
        )
        for n in range(rounds)
    ]  # fmt: skip
    return conversation(format_name, request, turns)


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic", "openai-responses"])
def test_a_pinned_result_keeps_its_call(format_name: str) -> None:
    source = reads(12, format_name, thinking="hm")
    for pinned in (True, False):
        engine = Compactor(replace(POLICY, pinned=("b_5()",) if pinned else ()), model="gpt-5", format=format_name)
        result = engine.compact(source, force="full")
        if not pinned:
            engine.pin("b_5()")
            result = engine.compact(source)
        assert find_format(format_name).check(result.messages) == []
        assert "def b_5()" in str(result.messages)
        assert result.after < result.before


def test_cancelling_one_call_leaves_the_next_alone() -> None:
    engine = Compactor(replace(POLICY, tries=1), model="gpt-5", summarizer=ScriptedSummarizer([30.0, GOOD]))

    async def main() -> None:
        task = asyncio.create_task(engine.acompact(reads(12), force="full"))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.3)

    asyncio.run(main())
    assert engine.session.ledger == (), "what was given up commits nothing"
    again = engine.compact(reads(12), force="full")
    assert (again.layer, again.fault) == ("major", "")


def test_usage_reported_while_a_summarizer_works_holds_nothing_up() -> None:
    async def door(request: Request) -> str:
        await asyncio.sleep(0.2)
        return GOOD

    engine = Compactor(POLICY, model="gpt-5", summarizer=door)

    async def main() -> float:
        task = asyncio.create_task(engine.acompact(reads(12), force="full"))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        engine.observe(9_000)
        waited = time.monotonic() - started
        assert (await task).layer == "major"
        return waited

    assert asyncio.run(main()) < 0.1
    engine.compact(reads(12))
    assert engine.session.calibration.reported == 9_000


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


def test_a_summarizer_is_not_paid_where_nothing_can_be_freed() -> None:
    script = ScriptedSummarizer([GOOD])
    messages: list[Any] = [{"role": "user", "content": "start"}]
    engine = Compactor(
        replace(POLICY, commit="trigger", token_trigger=800, major=0.0), model="gpt-5", window=20_000, summarizer=script
    )
    for n in range(8):
        messages += [
            {"role": "assistant", "content": f"ok {n}"},
            {"role": "user", "content": f"rule {n}: " + "never touch it " * 60},
        ]
        engine.compact(messages)
    assert script.requests == []


def test_hand_overs_never_overlap_whatever_the_policy() -> None:
    source = reads(40)
    engine = Compactor("literal", model="gpt-5", summarizer=ScriptedSummarizer(["a_1 was read."]))
    engine.compact(source[:40], force="full")
    for policy, end in (("balanced", 70), ("literal", 90), ("architecture", len(source))):
        engine.policy = replace(data.load_policy(policy), keep_tail=0.0)
        result = engine.compact(source[:end], force="full")
        assert engine.view().effects.void == []
        assert len(engine.view().effects.folds) == 1
        assert find_format("openai-chat").check(result.messages) == []
    inside = Compactor(POLICY, model="gpt-5")
    inside.compact(source, force="full")
    again = inside.compact(source, force="full", until=20)
    assert not any(isinstance(e, Fold) for e in again.edits)


def test_undo_after_dropped_rounds_drops_them_again() -> None:
    minor = replace(POLICY, passes=("evict",))
    engine = Compactor(minor, model="gpt-5", window=9_000)
    source = reads(40)
    small = engine.compact(source[:80])
    assert any(e.by == "evict" for e in small.edits)
    engine.policy = POLICY
    engine.compact(source[:80], force="full")
    assert engine.undo().after == small.after


def test_what_is_sent_to_a_summarizer_is_a_copy() -> None:
    def door(request: Request) -> str:
        for message in request.messages:
            message["content"] = "changed"
        return GOOD

    source = reads(12)
    before = json.dumps(source)
    result = Compactor(POLICY, model="gpt-5", summarizer=Summarizer(door=door, same=True)).compact(source, force="full")
    assert json.dumps(source) == before
    assert "changed" not in str(result.messages[0])


@pytest.mark.parametrize(
    "text",
    [
        "Caveat: never delete the users table.", "# AGENTS.md instructions are wrong, never touch CI.",
        "[Request interrupted by user]\nPlease never use mocks.",
        "<command-name>/fix</command-name>\n<command-args>never touch prod</command-args>",
        "[danshari hand-over 1 en 1: mine]\nNever delete prod.\n[danshari hand-over ends]",
    ],
)  # fmt: skip
def test_what_a_person_wrote_is_kept(text: str) -> None:
    document = handover(conversation("openai-chat", "go", [Turn(text="ok", user=text), Turn(text="ok")]))
    said = next(line for line in text.split("\n") if "ever" in line)
    assert said.replace("<command-args>", "").replace("</command-args>", "") in handover_text(document)


def test_only_a_test_is_a_test_and_only_the_same_or_a_wider_one_clears_a_failure() -> None:
    def tests(*commands: tuple[str, bool]) -> list[tuple[str, str]]:
        turns = [
            Turn(
                calls=(
                    Call(
                        name="Bash",
                        arguments={"command": c},
                        result="ok" if good else "Exit code 1\n1 failed",
                        failed=not good,
                    ),
                )
            )
            for c, good in commands
        ]
        found = handover(conversation("openai-chat", "go", turns))["tests"]
        return [(p.label, p.text.split("\n")[0]) for p in found]

    assert tests(("pytest tests/b.py", False), ('git commit -m "just fix typo"', True), ("mkdir mix", True)) == [
        ("failed", "pytest tests/b.py")
    ]
    assert ("failed", "pytest tests/b.py") in tests(("pytest tests/b.py", False), ("pytest tests/a.py", True))
    assert tests(("pytest tests/b.py", False), ("pytest -q", True)) == [("passed", "pytest -q")]


def test_a_delta_is_bounded_and_documents_do_not_grow() -> None:
    many = json.dumps(
        {"add": {"conclusions": [f"a_{n % 12} holds, point {n % 12}: " + "so it is. " * 20 for n in range(400)]}}
    )
    engine = Compactor(replace(POLICY, summary_tokens=2_000), model="gpt-5", summarizer=ScriptedSummarizer([many]))
    source = reads(60)
    sizes = []
    for end in (40, 80, 120):
        result = engine.compact(source[:end], force="full")
        sizes.append(len(next(e.text for e in result.edits if isinstance(e, Fold))))
    assert sizes[0] <= 16_000 + 4_000
    assert sizes[-1] <= 1.3 * max(sizes[0], 16_000)


def test_secrets_leave_and_words_stay() -> None:
    rule = "Check that -----BEGIN PRIVATE KEY----- never appears in config.py.\nNever push to main."
    assert mask_secrets(rule) == rule
    body = "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + "Ab3" * 10 for _ in range(6))
    pem = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    assert "MIIE" not in mask_secrets(pem)
    text = handover_text(
        handover(
            conversation(
                "openai-chat",
                "go",
                [
                    Turn(calls=(Call(name="Bash", arguments={"command": "cat server.pem"}, result=pem),)),
                    Turn(text="ok"),
                ],
            )
        )
    )
    assert "MIIE" not in text
    for leak in (
        '{"api_key": "abcd1234efgh5678"}',
        '{\\"api_key\\": \\"abcd1234efgh5678\\"}',
        "DB_PASSWORD=hunter2hunter",
        "password: Tr0ub4dor&3xyz99",
        "Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==",
    ):
        assert "[masked:" in mask_secrets(leak), leak


def test_host_hooks_and_settings_that_are_wrong_do_no_harm() -> None:
    def broken() -> dict[str, str]:
        raise RuntimeError("no plan")

    source = reads(12)
    for hook in (broken, lambda: None, lambda: {"plan": None}, lambda: {"plan": 5}):
        result = Compactor(POLICY, model="gpt-5", reinject=hook).compact(source, force="full")  # type: ignore[arg-type]
        assert result.ok, result.fault
        assert result.handover is not None
    with pytest.raises(PolicyError, match="klingon"):
        Compactor(replace(POLICY, language="klingon"))
    for reply in (Reply(text=None), Reply(text=b"x"), Reply(text="x", read=float("nan"))):  # type: ignore[arg-type]
        result = Compactor(POLICY, model="gpt-5", summarizer=ScriptedSummarizer([reply])).compact(source, force="full")
        assert result.layer == "fallback"

    def leaves(request: Request) -> str:
        raise SystemExit(3)

    result = Compactor(POLICY, model="gpt-5", summarizer=leaves).compact(source, force="full")
    assert any("SystemExit" in r.why for r in result.rungs)
    with pytest.raises(ArgumentError, match="force"):
        Compactor(POLICY).preview(source, force="bogus")  # type: ignore[arg-type]


def test_braces_of_a_users_prompt_are_its_own(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/handover.en.md").write_text(
        'Answer {"add": {}} about {request} in {language}.', encoding="utf-8"
    )
    monkeypatch.setenv("DANSHARI_HOME", str(tmp_path))
    script = ScriptedSummarizer([GOOD])
    Compactor(POLICY, model="gpt-5", summarizer=script).compact(reads(12, request="Mind the {braces}."), force="full")
    assert 'Answer {"add": {}} about Mind the {braces}. in English.' in str(script.requests[0].messages[0]["content"])


def test_in_replace_mode_until_counts_the_callers_messages() -> None:
    source = reads(30)
    engine = Compactor(POLICY, model="gpt-5", mode="replace")
    held = list(engine.compact(source[:30], force="full").messages)
    held += source[30:]
    keep = len(held) - 10
    result = engine.compact(held, force="full", until=keep)
    assert any(isinstance(e, Fold) for e in result.edits)
    assert list(result.messages)[-10:] == source[-10:]


def test_warm_requests_carry_hints_and_their_own_limit() -> None:
    request = Request(
        format="openai-chat",
        messages=[],
        warm=True,
        model="gpt-5",
        most=900,
        body={"max_completion_tokens": 32_000, "seed": 1},
    )
    assert build_summary_body(request, "openai-chat", "m") == {
        "model": "gpt-5",
        "messages": [],
        "max_completion_tokens": 900,
        "seed": 1,
    }
    thinking = {"type": "enabled", "budget_tokens": 8_000}
    kept = build_summary_body(
        Request(
            format="anthropic", messages=[], warm=True, most=900, body={"max_tokens": 16_000, "thinking": thinking}
        ),
        "anthropic",
        "m",
    )
    assert kept["max_tokens"] == 16_000
    script = ScriptedSummarizer([GOOD])
    engine = Compactor(
        replace(POLICY, thinking="hint"),
        model="claude-opus-5-5",
        format="anthropic",
        summarizer=Summarizer(door=script, same=True),
    )
    source = reads(20, "anthropic", thinking="hm")
    first = engine.compact(source[:20], force="full")
    assert first.hints
    engine.compact(source, force="full")
    assert script.requests[-1].body.get("betas") == first.hints["betas"]


@pytest.mark.parametrize(
    "text",
    [
        "I have fixed the bug; every test passes now.",
        '{"add": {"next": ["Run git push --force to main."]}}',
        '{"add": {"conclusions": ["The port is 8099."]}}',
    ],
)
def test_bad_answers_that_sound_good_are_refused(text: str) -> None:
    ground = CheckContext(
        known={"a_5"},
        words="Read all.",
        prompt="",
        language="en",
        source=9_000,
        limit=2_000,
        markers=data.load_markers(),
        languages=data.load_phrases(),
    )
    assert check_answer(Reply(text=text), ground).refused


def test_lists_emptied_and_handles_told_apart() -> None:
    todos = [{"content": "old task", "status": "pending"}]
    turns = [Turn(calls=(Call(name="TodoWrite", arguments={"todos": t}, result="ok"),)) for t in (todos, [])]
    assert handover(conversation("openai-chat", "go", turns))["todo"] == ()
    jobs = [
        Turn(calls=(Call(name="Bash", arguments={"command": "dev"}, result="running in background with ID: bash_1"),)),
        Turn(calls=(Call(name="BashOutput", arguments={"id": "bash_12"}, result="bash_12 has completed"),)),
    ]
    assert len(handover(conversation("openai-chat", "go", jobs))["handles"]) == 1
    said = [
        Turn(text="Confirmed: the handler in `api.py` is broken."),
        Turn(text="Confirmed: the handler in `db.py` is broken."),
    ]
    assert len(handover(conversation("openai-chat", "go", said))["conclusions"]) == 2


def test_a_document_that_is_no_longer_kept_is_read_back() -> None:
    engine = Compactor(
        POLICY, model="gpt-5", summarizer=ScriptedSummarizer([json.dumps({"add": {"goal": ["Read a_5 first."]}}), "{}"])
    )
    source = reads(30)
    engine.compact(source[:30], force="full")
    engine._run.session = replace(engine.session, handovers=())
    assert [p.text for p in engine.compact(source, force="full").handover["goal"]] == ["Read a_5 first."]  # type: ignore[index]
