"""What one shell line does, as far as compaction cares: does it show a file, search, list, write, or run something?"""

from __future__ import annotations

import re
import shlex
from typing import Literal, NamedTuple

ShellKind = Literal["read", "search", "list", "write", "run"]
_LONGEST = 600
"""Characters of a command that are parsed; what follows is nearly always a heredoc body."""
_READERS = {"cat", "nl", "bat", "less", "more", "head", "tail", "sed", "awk"}
_SEARCHERS = {"grep", "rg", "ag", "egrep", "fgrep", "ack"}
_LISTERS = {"ls", "find", "tree", "fd", "du", "wc"}
_QUIET = {"cd", "export", "set", "source", ".", "true", "pwd", "clear"}
_JOINTS = {"&&", "||", ";", "|", "&", "\n"}


class ShellAct(NamedTuple):
    """Kind of a shell line and, for a read or write, the path and 1-based line span (end 0: to the end)."""

    kind: ShellKind
    path: str = ""
    start: int = 1
    end: int = 0


_RUN = ShellAct("run")


def _words(command: str) -> list[str] | None:
    lexer = shlex.shlex(command[:_LONGEST], posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return None


def _pipelines(words: list[str]) -> list[list[list[str]]]:
    """Split words into commands joined by `&&`, `;` …, each a pipeline of simple commands."""
    found: list[list[list[str]]] = [[[]]]
    for word in words:
        if word == "|":
            found[-1].append([])
        elif word in _JOINTS:
            found.append([[]])
        else:
            found[-1][-1].append(word)
    return [pipeline for pipeline in found if pipeline[0]]


def shell_act(command: str) -> ShellAct:
    """Understand a shell line; anything beyond one plain read, search, listing or `cat >` write is a run."""
    words = _words(command.replace("\n", " ; ", 1) if "<<" not in command else command.split("\n", 1)[0])
    if not words:
        return _RUN
    pipelines = [p for p in _pipelines(words) if p[0][0] not in _QUIET]
    if not pipelines:
        return _RUN
    if any(_written(stage) for p in pipelines for stage in p):
        target = next(t for p in pipelines for stage in p if (t := _written(stage)))
        return ShellAct("write", target) if len(pipelines) == 1 and pipelines[0][0][0] in ("cat", "tee") else _RUN
    acts = [_pipeline(p) for p in pipelines]
    kinds = {act.kind for act in acts}
    if len(acts) == 1:
        return acts[0]
    return ShellAct(acts[0].kind) if len(kinds) == 1 and "run" not in kinds else _RUN


def _written(stage: list[str]) -> str:
    for at, word in enumerate(stage[:-1]):
        if word in (">", ">>") and not (at and stage[at - 1] in ("2", "1")) and stage[at + 1] != "/dev/null":
            return stage[at + 1]
    return ""


def _pipeline(stages: list[list[str]]) -> ShellAct:
    first = stages[0]
    tool = first[0].rsplit("/", 1)[-1]
    if tool in _SEARCHERS or (tool == "git" and first[1:2] == ["grep"]):
        return ShellAct("search")
    if tool in _LISTERS or (tool == "git" and first[1:2] == ["ls-files"]):
        return ShellAct("list")
    if tool not in _READERS:
        return _RUN
    if any(s and s[0].rsplit("/", 1)[-1] in _SEARCHERS for s in stages[1:]):
        return ShellAct("search")
    return _read(tool, stages)


def _read(tool: str, stages: list[list[str]]) -> ShellAct:
    args = [word for word in stages[0][1:] if not word.startswith("-")]
    if tool == "sed" and "-n" not in stages[0]:
        return _RUN
    files = args[1:] if tool in ("sed", "awk") else [a for a in args if not a.removeprefix("+").isdecimal()]
    path = files[-1] if len(files) == 1 else ""
    start, end = 1, 0
    for stage in stages:
        start, end = _narrow(stage, start, end)
    return ShellAct("read", path, start, end)


_RANGE = re.compile(r"(\d+)(?:,(\d+|\$))?p\Z")


def _narrow(stage: list[str], start: int, end: int) -> tuple[int, int]:
    tool = stage[0].rsplit("/", 1)[-1] if stage else ""
    if tool == "sed":
        for word in stage[1:]:
            if span := _RANGE.match(word):
                last = span.group(2) or span.group(1)
                return int(span.group(1)), 0 if last == "$" else int(last)
    if tool == "head":
        count = next((w.lstrip("-n") for w in stage[1:] if w.lstrip("-n").isdecimal()), "10")
        return start, start + int(count) - 1
    if tool == "tail":
        return (
            (start, end)
            if stage[1:2] != ["-n"] or not stage[2:3] or not stage[2].startswith("+")
            else (int(stage[2][1:]) if stage[2][1:].isdecimal() else 1, end)
        )
    return start, end
