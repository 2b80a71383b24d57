"""Adapter that runs danshari on the public bug-report cases.

Usage: `check_case.py CASES --adapter danshari.bench.cases:Session`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.core.policy import Policy
from danshari.core.summary import Request
from danshari.errors import RecallError
from danshari.summarizers import Summarizer
from danshari_bench.phrases import recall_messages

_MODEL = "gpt-5"
_RUN = re.compile(r"[A-Za-z0-9+/=_-]{512,}")
_SAFETY = 0.75
"""The cases count tokens more roughly than we do (3.8 characters each, keys included); aim below their line."""


def policy_from_case(words: Mapping[str, Any]) -> Policy:
    """Translate the policy settings of a case into a `Policy`."""
    base = data.load_policy("balanced")
    window = int(words.get("window", 128_000))
    trigger = float(words.get("trigger") or float(words.get("trigger_ratio", 0.7)) * window)
    keep = words.get("keep_recent_tools")
    protected = (*base.protected, *words.get("protected_tools", ()))
    return base.with_fields(
        name="case",
        commit_mode="trigger",
        commit_token_trigger=int(_SAFETY * trigger),
        handover_above=0.0,
        elide_keep_rounds=int(keep) if keep is not None else 4,
        elide_keep_files=0,
        elide_max_length=int(words.get("max_tool_length", 200)),
        elide_evidence=0.0,
        elide_process=0.0,
        elide_transient=0.0,
        elide_arguments="all",
        admit_over=0,
        commit_release=0.7,
        estimate="literal",
        protected=protected,
        pinned=tuple(words.get("pinned", ())),
        elide_margin=0.05,
        handover_tail=0.2 * trigger / window,
        commit_active=1.0,
        handover_size=int(0.8 * trigger),
        handover_restore=0,
        handover_alternate=bool(words.get("strict_alternation", False)),
        protected_head=int(words.get("protect_head", 0)),
        summary_request="flat",
        summary_tokens=min(1_000, window // 16),
        summary_model=str(words.get("summary_model", "")),
        summary_prompt=str(words.get("summary_prompt", "")),
    )


def rough_tokens(value: Any) -> int:
    """Estimate tokens the way the cases do.

    Tokens per character: 1/3.8, wide characters .85, unbroken runs of 512 and more .72; an image counts
    1,500.
    """
    if isinstance(value, str):
        runs = sum(len(run) for run in _RUN.findall(value))
        wide = sum(ord(char) > 0x2E7F for char in value)
        return int(0.72 * runs + 0.85 * wide + max(len(value) - runs - wide, 0) / 3.8)
    if isinstance(value, Mapping):
        if value.get("type") in ("image_url", "image", "input_image"):
            return 1_500
        return sum(rough_tokens(k) + rough_tokens(v) for k, v in value.items()) + 2
    if isinstance(value, list):
        return sum(map(rough_tokens, value)) + len(value)
    return 1


class Session:
    """The host of one case; like the case runner, it stores what `compact` returns."""

    def __init__(self, case: Mapping[str, Any], llm: Callable[[Any], Any]) -> None:
        """Create a compactor from the case's policy and window; `llm` answers summary requests."""
        words = case.get("policy", {})
        window = int(words.get("window", 128_000))
        limit = int((case.get("summarizer") or {}).get("window") or window)

        def ask_model(request: Request) -> Any:
            return llm(request.to_dict())

        self._engine = Compactor(
            policy_from_case(words),
            model=_MODEL,
            window=window,
            mode="replace",
            format=case["format"],
            summarizer=Summarizer(function=ask_model, window=int(_SAFETY * limit)),
            clock=lambda: 0.0,
        )
        self._words = words
        self._trigger = float(words.get("trigger") or math.inf)
        self._arrived: list[Any] = []
        self.status = "unchanged"

    def compact(self, messages: list[Any], force: bool | str = False) -> list[Any]:
        """Return the messages to send next, followed by those that arrived during a summary."""
        for message in messages:
            if isinstance(message, dict) and isinstance(message.get("usage"), dict):
                self._engine.observe(message["usage"])
        result = self._engine.compact(messages, force="full" if force == "full" else bool(force))
        if force and (counted := rough_tokens(result.messages)) > self._trigger:
            self._engine.observe(counted)  # a host would learn this from the provider's usage
            result = self._engine.compact(result.messages, force=True)
        self.status = {"minor": "micro", "major": "summary"}.get(result.layer, result.layer)
        arrived, self._arrived = self._arrived, []
        return [*result.messages, *arrived]

    def add(self, messages: list[Any]) -> None:
        """Queue messages that arrive while a summary is being written."""
        self._arrived += messages

    def search(self, query: str) -> list[str]:
        """Find removed originals."""
        try:
            return [entry.text for entry in self._engine.recall(query)]
        except RecallError:
            return []

    def retrieve_message(self, query: str) -> list[Any]:
        """Return a recall call and its result as messages."""
        return recall_messages(self._engine.view_format(), query, "\n".join(self.search(query)[:1]))

    def set_model(self, window: int, input_limit: int | None = None) -> None:
        """Switch to a model with another window."""
        limit = input_limit or window
        line = int(_SAFETY * min(limit, float(self._words.get("trigger_ratio", 1.0)) * window))
        self._engine.policy = self._engine.policy.with_fields(commit_token_trigger=line)
        self._engine.set_model(window=window)

    def undo(self) -> list[Any]:
        """Undo the last batch of edits and return the messages."""
        return list(self._engine.undo().messages)

    def save(self) -> str:
        """Save the session."""
        return self._engine.save()

    def load(self, blob: str) -> list[Any]:
        """Load a session and return its last view."""
        self._engine.load(blob)
        return self._engine.last_view()

    def preview(self, messages: list[Any]) -> list[str]:
        """Describe what `compact` would do."""
        result = self._engine.preview(messages, force=True)
        return [f"{edit.by}: {edit.why}" for edit in result.edits] + [str(m) for m in result.messages]
