"""A key goes to its own vendor's address or nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from danshari.data.vendors import load_vendors
from danshari.errors import ArgumentError
from danshari.formats import FORMATS
from danshari.proxy.http.request import ClientRequest
from danshari.proxy.http.upstream import choose_upstream, default_upstreams

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/gemini-3-pro:streamGenerateContent"


def choose(path: str, headers: dict[str, str], upstreams: dict[str, str], method: str = "POST") -> str:
    async def unused(*_: Any) -> Any:
        raise AssertionError

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"method": method, "path": path, "query_string": b"", "headers": raw}
    return choose_upstream(ClientRequest(scope, unused, unused), upstreams).url


@pytest.mark.parametrize(
    ("path", "headers", "vendor"),
    [
        (CHAT, {"authorization": "Bearer sk-proj-1"}, "openai"),
        (RESPONSES, {"authorization": "Bearer sk-1"}, "openai"),
        ("/v1/responses/compact", {"authorization": "Bearer sk-1"}, "openai"),
        ("/v1/models", {"authorization": "Bearer sk-1"}, "openai"),
        (MESSAGES, {"x-api-key": "sk-ant-1", "anthropic-version": "2023-06-01"}, "anthropic"),
        (MESSAGES, {"authorization": "Bearer sk-ant-oat01-1"}, "anthropic"),
        ("/v1/messages/count_tokens", {"authorization": "Bearer sk-ant-oat01-1"}, "anthropic"),
        ("/v1/models", {"x-api-key": "sk-ant-1", "anthropic-version": "2023-06-01"}, "anthropic"),
        (GEMINI, {"x-goog-api-key": "AIza1"}, "google"),
        ("/v1beta/openai/chat/completions", {"authorization": "Bearer AIza1"}, "google"),
        ("/upload/v1beta/files", {"x-goog-api-key": "AIza1"}, "google"),
    ],
)
def test_requests_of_our_formats_go_home(path: str, headers: dict[str, str], vendor: str) -> None:
    assert choose(path, headers, {}).startswith(default_upstreams()[vendor])


@pytest.mark.parametrize("path", [RESPONSES, "/backend-api/codex/responses"])
def test_a_login_goes_where_it_was_made(path: str) -> None:
    headers = {"authorization": "Bearer eyJ", "chatgpt-account-id": "1"}
    assert choose(path, headers, {}) == "https://chatgpt.com/backend-api/codex/responses"


FOREIGN = [
    ("/model/anthropic.claude-sonnet-4-5/invoke-with-response-stream", {"authorization": "AWS4-HMAC-SHA256 Credential=A"}),
    ("/v1/projects/p/locations/us/publishers/anthropic/models/claude:streamRawPredict", {"authorization": "Bearer ya29.1"}),
    ("/v1beta1/projects/p/locations/us/publishers/google/models/gemini:generateContent", {"authorization": "Bearer ya29.1"}),
    ("/openai/deployments/d/chat/completions", {"api-key": "1"}),
    ("/openai/v1/chat/completions", {"authorization": "Bearer gsk_1"}),
    (CHAT, {"authorization": "Bearer ghu_1", "copilot-integration-id": "vscode-chat"}),
    (CHAT, {"authorization": "Bearer sk-ant-1"}),
    (CHAT, {"authorization": "Bearer sk-or-v1-1"}),
    (CHAT, {"authorization": "Bearer gsk_1"}),
    (CHAT, {"x-api-key": "sk-ant-1"}),
    (CHAT, {"api-key": "1"}),
    (CHAT, {"x-goog-api-key": "AIza1"}),
    (MESSAGES, {"x-api-key": "sk-proj-1"}),
    (MESSAGES, {"authorization": "Bearer AIza1"}),
    (GEMINI, {"x-goog-api-key": "sk-ant-1"}),
    ("/api/chat", {}),
    ("/v2/chat", {"authorization": "Bearer 1"}),
    ("/ml/v1/text/chat", {"authorization": "Bearer 1"}),
    ("/something/else", {"authorization": "Bearer 1"}),
    *((CHAT, {"authorization": "Bearer sk-1", name: "k"}) for v in load_vendors().values() for name in v.headers | v.marks
      if name not in ("authorization", "chatgpt-account-id")),
]  # fmt: skip


@pytest.mark.parametrize(("path", "headers"), FOREIGN)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_what_is_another_vendors_is_refused(path: str, headers: dict[str, str], method: str) -> None:
    """With what to do; and a configured upstream for everything takes it."""
    with pytest.raises(ArgumentError, match=r"nothing was sent\. Start danshari with --upstream URL"):
        choose(path, headers, {}, method)
    assert choose(path, headers, {"*": "http://gateway"}, method) == f"http://gateway{path}"
    assert choose(path, {**headers, "x-danshari-upstream": "mine"}, {"mine": "http://gateway"}, method)


def test_a_path_of_a_configured_vendor_goes_there() -> None:
    for vendor, path in (("azure", "/openai/deployments/d/chat/completions"), ("bedrock", "/model/m/converse")):
        assert choose(path, {"api-key": "1"}, {vendor: "http://theirs"}) == f"http://theirs{path}"


def test_a_named_default_takes_no_foreign_key() -> None:
    with pytest.raises(ArgumentError, match="key sk-ant-… is for Anthropic"):
        choose(CHAT, {"authorization": "Bearer sk-ant-1", "x-danshari-upstream": "openai"}, {"*": "http://gateway"})


def test_every_format_has_a_row() -> None:
    for wire in FORMATS.values():
        row = load_vendors()[wire.api.vendor]
        assert row.owns_path(f"/v1{wire.api.request_path('m')}".replace("/v1/models/m:g", "/v1beta/models/m:g"))
