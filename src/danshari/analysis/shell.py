"""Parse one shell line into what it does to files.

It reads, searches, lists or writes a file, or it runs something.
"""

from __future__ import annotations

import shlex
from typing import Literal, NamedTuple

from danshari.core.text import lazy_pattern

ShellKind = Literal["read", "search", "list", "edit", "write", "run"]
_MAX_PARSED = 600
"""Characters of a command that are parsed; what follows is nearly always a heredoc body."""
_READERS = {"cat", "nl", "bat", "less", "more", "head", "tail", "sed", "awk"}
_SEARCHERS = {"grep", "rg", "ag", "egrep", "fgrep", "ack"}
_LISTERS = {"ls", "find", "tree", "fd", "du", "wc"}
_QUIET = {"cd", "export", "set", "source", ".", "true", "pwd", "clear"}
_SEPARATORS = {"&&", "||", ";", "|", "&", "\n"}


class ShellAction(NamedTuple):
    """What a shell line does; for a read or write also the path and the 1-based line span."""

    kind: ShellKind
    path: str = ""
    start: int = 1
    end: int = 0
    exact: bool = True
    """Whether every line of that span was shown, and nothing else was done with it."""
    folder: str = ""
    """Where a leading `cd` went."""


_RUN = ShellAction("run")


def _split_words(command: str) -> list[str] | None:
    """Split a shell line into words, or return None if its quotes do not match."""
    lexer = shlex.shlex(command[:_MAX_PARSED], posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return None


def _split_pipelines(words: list[str]) -> list[list[list[str]]]:
    """Split words into commands joined by `&&`, `;` …, each a pipeline of simple commands."""
    found: list[list[list[str]]] = [[[]]]
    for word in words:
        if word == "|":
            found[-1].append([])
        elif word in _SEPARATORS:
            found.append([[]])
        else:
            found[-1][-1].append(word)
    return [pipeline for pipeline in found if pipeline[0]]


def parse_shell_line(command: str) -> ShellAction:
    """Parse a shell line.

    Anything but one plain read, search, listing or `cat >` write counts as a run.
    """
    words = _split_words(command.replace("\n", " ; ", 1) if "<<" not in command else command.split("\n", 1)[0])
    if not words:
        return _RUN
    every = _split_pipelines(words)
    folder = next((p[0][1] for p in every if p[0][0] == "cd" and len(p[0]) > 1), "")
    pipelines = [p for p in every if p[0][0] not in _QUIET]
    if not pipelines:
        return _RUN._replace(folder=folder)
    writes = [found for p in pipelines for stage in p if (found := _output_redirect(stage))]
    if writes:
        how, target = writes[0]
        plain = len(pipelines) == 1 and pipelines[0][0][0] in ("cat", "tee")
        return (
            ShellAction("edit" if how == ">>" else "write", target, folder=folder)
            if plain
            else _RUN._replace(folder=folder)
        )
    acts = [_classify_pipeline(p) for p in pipelines]
    kinds = {act.kind for act in acts}
    if len(acts) == 1:
        return acts[0]._replace(folder=folder)
    return ShellAction(acts[0].kind if len(kinds) == 1 else "run", folder=folder)


def _output_redirect(stage: list[str]) -> tuple[str, str] | None:
    """Return (operator, path) if a command redirects its output into a file, else None."""
    for at, word in enumerate(stage[:-1]):
        if word in (">", ">>") and not (at and stage[at - 1] in ("2", "1")) and stage[at + 1] != "/dev/null":
            return word, stage[at + 1]
    return None


def find_deleted_paths(command: str) -> list[str]:
    """List the plain paths that a shell line deletes (`rm`, `git rm`, the source of `mv`)."""
    words = _split_words(command.split("\n", 1)[0])
    found: list[str] = []
    for pipeline in _split_pipelines(words) if words else ():
        first = pipeline[0][1:] if pipeline[0][0] == "git" else pipeline[0]
        given = [w for w in first[1:] if not w.startswith("-") and not set(w) & set("*?$<>")]
        if first[:1] == ["rm"]:
            found += given
        elif first[:1] == ["mv"] and len(given) == 2:
            found.append(given[0])
    return found


def _classify_pipeline(stages: list[list[str]]) -> ShellAction:
    """Return what one pipeline does, judged by its first command and by searches after it."""
    first = stages[0]
    tool = first[0].rsplit("/", 1)[-1]
    if tool in _SEARCHERS or (tool == "git" and first[1:2] == ["grep"]):
        return ShellAction("search")
    if tool in _LISTERS or (tool == "git" and first[1:2] == ["ls-files"]):
        return ShellAction("list")
    if tool not in _READERS:
        return _RUN
    if any(s and s[0].rsplit("/", 1)[-1] in _SEARCHERS for s in stages[1:]):
        return ShellAction("search")
    return _parse_read(tool, stages)


def _parse_read(tool: str, stages: list[list[str]]) -> ShellAction:
    """Return the read that a pipeline of `cat`, `sed -n`, `head` and the like does, with path and line span."""
    if tool == "sed" and "-n" not in stages[0]:
        return _RUN
    args = [word for word in stages[0][1:] if not word.startswith("-")]
    files = args[1:] if tool in ("sed", "awk") else [a for a in args if not a.removeprefix("+").isdecimal()]
    path = files[-1] if len(files) == 1 else ""
    start, end, exact = 1, 0, bool(path)
    for stage in stages:
        span = _narrow_span(stage, start, end)
        start, end, exact = (*span, exact) if span else (start, end, False)
    return ShellAction("read", path, start, end, exact)


_SED_RANGE = lazy_pattern(r"(\d+)(?:,(\d+|\$))?p\Z")
_WHOLE_FILE_TOOLS = {"cat", "nl", "bat", "less", "more"}


def _narrow_span(stage: list[str], start: int, end: int) -> tuple[int, int] | None:
    """Return the (first, last) lines left after one stage of a pipeline, or None if the words do not tell.

    Last line 0 means to the end of the file.
    """
    tool = stage[0].rsplit("/", 1)[-1] if stage else ""
    flags = [word for word in stage[1:] if word.startswith("-")]
    numbers = [word for word in stage[1:] if word.lstrip("-n").isdecimal()]
    if tool in _WHOLE_FILE_TOOLS:
        return start, end
    if tool == "sed":
        spans = [m for word in stage[1:] if (m := _SED_RANGE.match(word))]
        scripts = [word for word in stage[1:] if word != "-n" and not _SED_RANGE.match(word)]
        if len(spans) != 1 or len(scripts) > 1 or start != 1:
            return None
        last = spans[0].group(2) or spans[0].group(1)
        return int(spans[0].group(1)), 0 if last == "$" else int(last)
    if tool == "head" and not set(flags) & {"-c"} and len(numbers) <= 1:
        count = int(numbers[0].lstrip("-n")) if numbers else 10
        return start, start + count - 1 if not end else min(end, start + count - 1)
    plus = [word[1:] for word in stage[1:] if word.startswith("+") and word[1:].isdecimal()]
    return (int(plus[0]), end) if tool == "tail" and plus and start == 1 else None
