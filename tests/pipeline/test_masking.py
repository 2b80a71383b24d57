"""Secrets are masked, ordinary code is not."""

from __future__ import annotations

import json
from pathlib import Path

from danshari import Compactor, data, handover, handover_text
from danshari.archive import maintenance as keeping
from danshari.archive.sqlite import SqliteArchive
from danshari.pipeline.masking import mask_secrets
from danshari.testing import Call, Turn, conversation
from tests.support.archives import LOG
from tests.support.material.summaries import ask_summarizer, document_text


def test_secrets_are_masked_and_ordinary_code_is_not() -> None:
    secrets = {
        "api key": "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2", "github token": "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
        "aws key id": "AKIA" + "ABCDEFGH23456789", "slack token": "xoxb-" + "123456789012-abcdefGHIJ",
    }  # fmt: skip
    for kind, secret in secrets.items():
        assert mask_secrets(f"KEY={secret} rest") == f"KEY=[masked: {kind}] rest" or secret not in mask_secrets(
            f"KEY={secret} rest"
        )
        assert "rest" in mask_secrets(f"KEY={secret} rest")
    assert mask_secrets("postgres://app:hunter22@db/app") == "postgres://app:[masked: password in url]@db/app"
    assert "I6aUkNDiVKmc" not in mask_secrets(
        "aws_secret_access_key = I6aUkNDiVKmc/VCdW5qtxRIb4ijsxPZ+1Oe0XxsiF5iGRsxtV5hPOYhobgQHj"
    )
    for plain in (
        "token = tokens[0]",
        "password = getpass()",
        "sha256:" + "9f31" * 16,
        "api_key: str = field()",
        "https://example.com/a:b@c",
    ):
        assert mask_secrets(plain) == plain


def test_secrets_are_masked_everywhere() -> None:
    key = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz"
    turns = [
        Turn(
            calls=(
                Call(name="Bash", arguments={"command": f"export KEY={key}"}, result=f"KEY={key}\n" + "x y z\n" * 90),
            )
        )
        for _ in range(5)
    ]
    source = conversation("openai-chat", "Rotate the key.", [*turns, Turn(text="Done.")], system="Be brief.")
    result, script = ask_summarizer(json.dumps({"add": {"notes": [f"The key is {key}."]}}), messages=source)
    assert key not in str(script.requests[0].messages)
    assert key not in str(result.messages)
    assert "[masked: api key]" in document_text(result)


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


def test_secrets_are_masked_before_they_are_stored_where_the_policy_says_so(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 12
    call = Call(name="Bash", arguments={"command": "env"}, result=f"ANTHROPIC_API_KEY={key}\n" + LOG)
    messages = conversation("openai-chat", "go", [Turn(calls=(call,))])
    for masks in (False, True):
        archive = SqliteArchive(tmp_path / f"{masks}.db")
        policy = data.load_policy("balanced").with_fields(recall_mask_archive=masks)
        Compactor(policy, archive=archive).compact(messages)
        stored = [json.loads(line)["text"] for line in list(keeping.export_archive(archive))[1:]]
        assert len(stored) == 2  # the text, and the message that held it
        assert any(key in text for text in stored) is not masks
