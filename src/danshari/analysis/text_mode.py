"""Recognise results in agents that call their tools in plain text and get the results as texts of the user's role."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from danshari.core.items import Item
from danshari.core.text import lazy_pattern

_ACTION = lazy_pattern(
    r"^\s{0,8}(?:```[\w.+-]{1,20}\s*$"
    r"|(?:\*\*)?(?:Action|Action Input|Tool|Tool call|Function call|Command|Code|行动|动作)(?:\*\*)?\s?[:：]"
    r"|<(?:function|invoke|tool|tool_call|tool_use|function_call|execute_\w{1,20}|bash|code|action|command)\b[^<>\n]{0,200}>"
    r"|<(?P<tag>[a-z][a-z0-9]*_[a-z0-9_]{1,40})>)",
    re.MULTILINE,
)
"""An action in what the assistant wrote: a fenced block, an `Action:` line, or a tag that names a tool."""
_OBSERVATION = lazy_pattern(
    r"\s{0,8}(?:(?:\*\*|#{1,3} )?(?i:observation|exit ?code|return ?code|观察|执行结果|工具结果"
    r"|(?:tool|execution|command|code|function)(?: execution)? (?:results?|outputs?|logs?|responses?))"
    r"(?: \d{1,4})?(?:\*\*)?\s?(?:[:：=]|\(|\n|\Z|of |from |for )"
    r"|\[[^\]\n]{1,300}\]\s(?:Result|Output|Error):)"
)
"""How clients begin a result, after the agent's action."""
_CERTAIN = lazy_pattern(
    r"\s{0,8}(?:EXECUTION RESULT of \[|OBSERVATION:\n|exitcode: \d|I ran this command:\n"
    r"|(?:Calling tools|Execution logs|Last output from code snippet):\n"
    r"|<(?:returncode|exit_code|tool_response|tool_result|tool_output|function_results?|function_response"
    r"|execution_result|observation|output|stdout|command_output)>)"
)
"""Beginnings that no person types."""
_PROMPT = lazy_pattern(r"\((?:Open file|Current directory): [^\n]{0,400}\)\s{0,3}(?:bash-)?\$?\s{0,3}\Z")
"""How a client ends a result with the state of its shell."""
_SPOKEN = lazy_pattern(
    r"\s{0,8}(?:(?:\[[^\]\n]{1,300}\] Result:\s{0,4})?"
    r"The user (?:denied|rejected|approved|provided)\b[^\n<]{0,160}:\s{0,4}<(?:feedback|user_message)>"
    r"|\[(?:ask|attempt)_[^\]\n]{1,300}\] Result:\s{0,4}<(?:answer|feedback|user_message)>)"
)
"""How a client begins a result that holds a person's words and nothing else."""
_ENDS = 4_000
"""Characters of each end of the assistant's text that are searched for an action."""


def read_observation(item: Item, before: Sequence[Item]) -> Item:
    """Return a text of the user's role as the result that it is, or the item itself.

    A result follows what the assistant wrote in a turn without calls, and looks as clients write one; further texts of
    the same message belong to it.
    """
    if item.kind != "text" or item.role != "user" or not item.turn or not before:
        return item
    last = before[-1]
    if _holds_words(item.text):
        return item
    if last.kind == "result" and not last.call and last.at and item.at and last.at[0] == item.at[0]:
        return _as_result(item)
    if last.role != "assistant" or last.kind != "text":
        return item
    text, head = item.text, item.text[:400]
    if _CERTAIN.match(head):
        return _as_result(item)
    if (_OBSERVATION.match(head) or _PROMPT.search(text[-900:])) and _acts(last.text):
        return _as_result(item)
    return item


def _as_result(item: Item) -> Item:
    return replace(item, kind="result", role="tool")


def _holds_words(text: str) -> bool:
    """Return whether a result is a person's answer: nothing follows its closing tag but what the client adds."""
    if not _SPOKEN.match(text[:1_000]):
        return False
    said = text[: text.rfind("<environment_details>")] if "<environment_details>" in text else text
    return said.rstrip().endswith(("</feedback>", "</answer>", "</user_message>"))


def _acts(text: str) -> bool:
    """Return whether a text of the assistant holds an action."""
    probe = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    found = _ACTION.search(probe)
    while found and found["tag"] and f"</{found['tag']}>" not in probe:
        found = _ACTION.search(probe, found.end())
    return found is not None
