"""Whatever carries a credential keeps tenants apart; web pages of elsewhere are no tenants."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari.core.recall_tools import READ_TOOL, SEARCH_TOOL
from danshari.data.vendors import find_credentials
from danshari.proxy.recall.store import names_recall_tool
from danshari.testing import Call, Turn
from tests.support.proxy import Pair, body_of, make_pair, round_by_round, work
from tests.support.recalls import TOOL

CREDENTIALS = [
    "authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization", "x-litellm-api-key",
    "x-portkey-api-key", "x-portkey-virtual-key", "helicone-auth", "ocp-apim-subscription-key", "x-auth-token",
    "x-amz-security-token", "proxy-api-key", "cookie", "x-some-vendor-secret",
]  # fmt: skip


def names(pair: Pair) -> list[str]:
    return [session.client.tenant for session in pair.app.state.sessions.all_branches()]


@pytest.mark.parametrize("header", CREDENTIALS)
def test_every_credential_makes_a_tenant(header: str) -> None:
    """Beside another that both have, too; the same credential again is the same tenant."""
    for shared in ({}, {"authorization": "Bearer gateway"}):
        credentials = [
            find_credentials({**shared, header: f"session={value}"}.items(), "") for value in ("a", "b", "a")
        ]
        assert credentials[0] == credentials[2] != credentials[1]


@pytest.mark.parametrize("name", ["key", "api_key", "api-key", "access_token", "subscription-key", "token"])
def test_a_credential_in_the_url_makes_a_tenant(name: str) -> None:
    assert find_credentials([], f"alt=sse&{name}=a") == ["a"] != find_credentials([], f"{name}=b")
    assert find_credentials([], "alt=sse&api-version=2024-10-21&beta=true") == []


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-stainless-retry-count", "1"),
        ("idempotency-key", "4f"),
        ("cookie", "__cf_bm=123; _cfuvid=4"),
        ("anthropic-beta", "token-counting"),
        ("x-danshari-token", "secret"),
        ("x-request-id", "a"),
        ("user-agent", "x"),
    ],
)
def test_what_changes_by_itself_makes_no_tenant(header: str, value: str) -> None:
    assert find_credentials([(header, value)], "") == []


def test_a_signature_is_known_by_its_key() -> None:
    signed = [find_credentials([("authorization", f"AWS4-HMAC-SHA256 Credential=AKIA/2026/{n}, Signature={n}")], "")
              for n in range(2)]  # fmt: skip
    assert signed[0] == signed[1] != []


def test_a_refreshed_token_is_the_same_tenant_where_the_owner_is_told() -> None:
    for owner, count in (("", 2), ("me", 1)):
        for pair in make_pair(owner=owner):
            messages = work(3, "openai-chat")
            for cut, token in ((1, "one"), (3, "one"), (5, "two"), (7, "two")):
                body = body_of("openai-chat", messages[:cut])
                pair.client.post("/v1/chat/completions", body, authorization=f"Bearer {token}")
            assert len(names(pair)) == len(set(names(pair))) == count


def test_nothing_is_recalled_across_requests_without_a_credential() -> None:
    for pair in make_pair():
        round_by_round(pair, "openai-chat", work(8, "openai-chat"))
        queue = [Turn(calls=(Call(name=SEARCH_TOOL, arguments={"query": "compiled module", "everywhere": True}),))]
        pair.upstream.script = lambda asked, queue=queue: queue.pop() if queue else Turn(text="ok")
        body = body_of("openai-chat", [{"role": "user", "content": "hi"}], tools=[TOOL["openai-chat"]])
        assert pair.client.post("/v1/chat/completions", body)[0] == 200
        assert "nothing recalled" in json.dumps(pair.upstream.requests[-1].body)


def ask(pair: Pair, method: str, path: str, **headers: str) -> int:
    place = pair.here.removeprefix("http://")
    connection = http.client.HTTPConnection(place, timeout=30)
    sent = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    body = json.dumps(body_of("openai-chat", [{"role": "user", "content": "hi"}])) if method == "POST" else None
    connection.putrequest(method, path, skip_host="host" in sent)
    for name, value in {**sent, "content-length": str(len(body or ""))}.items():
        connection.putheader(name, value)
    connection.endheaders((body or "").encode())
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "testserver"}, 421),
        ({"host": "127.0.0.1.evil.example:80"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:1"}, 200),
        ({"host": "named.example"}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "vscode-webview://1a"}, 200),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/chat/completions"), ("GET", "/status.json"), ("GET", "/")])
def test_web_pages_of_elsewhere_are_refused(method: str, path: str, headers: dict[str, str], status: int) -> None:
    for pair in make_pair(hosts="named.example, other.example"):
        assert ask(pair, method, path, **headers) == status
        assert status == 200 or not pair.upstream.requests


@pytest.mark.parametrize("begun", [False, True])
def test_tools_of_the_clients_own_are_never_taken_for_ours(begun: bool) -> None:
    """Whether the client has them from the start or takes them on later: none stands twice, and calls reach it."""
    own = {"type": "function", "function": {"name": READ_TOOL, "parameters": {"type": "object", "properties": {}}}}
    for pair in make_pair(recall="on"):
        messages: list[Any] = [{"role": "user", "content": "hi"}]
        if begun:
            pair.client.post("/v1/chat/completions", body_of("openai-chat", messages, tools=[TOOL["openai-chat"]]))
            messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"}]
        pair.upstream.script = lambda asked: Turn(calls=(Call(name=READ_TOOL, arguments={"id": "x"}),))
        count = len(pair.upstream.requests)
        body = body_of("openai-chat", messages, tools=[TOOL["openai-chat"], own])
        said = json.loads(pair.client.post("/v1/chat/completions", body)[2])
        assert said["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == READ_TOOL
        assert len(pair.upstream.requests) == count + 1
        assert len(pair.upstream.requests[-1].body["tools"]) == 2


@given(
    tools=st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["name", "string", "object"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "properties", "parameters", "function"]), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    own=st.booleans(),
)
def test_tools_of_any_shape_are_searched_for_our_names(tools: Any, own: bool) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "value": tools}}
    listed = [{"name": SEARCH_TOOL if own else "look", "input_schema": schema}, tools]
    assert names_recall_tool(listed) is own
