"""The two tools by which an agent gets archived originals back, independent of any provider's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

SEARCH_TOOL, READ_TOOL = "recall_search", "recall_read"


class ToolDefinition(NamedTuple):
    """A tool that a model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


RECALL_TOOLS = (
    ToolDefinition(
        name=SEARCH_TOOL,
        description="Search what left this conversation's context: earlier tool results, file contents, command "
        "output, failed attempts. Gives the ids and the matching lines. Search with exact identifiers, paths or error "
        "texts, before reading or running something again and before proposing an approach that may "
        "have failed already.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Identifiers, words of an error, a path or a command."},
                "path": {"type": "string", "description": "Only originals of files whose path holds this."},
                "failed": {"type": "boolean", "description": "Only what failed: attempts that were ruled out."},
                "everywhere": {"type": "boolean", "description": "Search other sessions of this project too."},
            },
            "required": ["query"],
        },
    ),
    ToolDefinition(
        name=READ_TOOL,
        description="Read an archived original, or some of its lines, by the id shown as `recall` or `archived as`.",
        parameters={
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id, 6 characters or more."},
                "start": {"type": "integer", "description": "First line, 1-based."},
                "end": {"type": "integer", "description": "Last line."},
                "offset": {
                    "type": "integer",
                    "description": "Characters to skip in a line that is too long to show whole.",
                },
            },
            "required": ["id"],
        },
    ),
)
RECALL_TOOL_NAMES = frozenset(tool.name for tool in RECALL_TOOLS)
SYSTEM_PROMPT_HINT = (
    "Some earlier results are shortened; nothing is lost. Before you repeat a read or a command, or propose an "
    "approach, search the archive with recall_search, and read an original with recall_read and the id shown beside it."
)
"""For a system prompt, where you want it there from the first request on (seed 3, S11); never added by danshari."""
