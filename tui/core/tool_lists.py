"""The tools of this run as text for the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from edgellm.fmt import counted, printable
from tui.core.session_tools import SessionTools

if TYPE_CHECKING:
    from edgellm.tools.tool import Tool

_DESCRIPTION, _SCHEMA = 60, 400
"""Characters that are shown of the description of a tool, and of a schema."""


def commands_text(tools: SessionTools) -> str:
    """The commands that replies may call, in lines."""
    if not tools.commands:
        return "no commands; /tools FILE lets the model call those of a file"
    return "\n".join([counted(len(tools.commands), "command"), *_lines(tools.commands.values(), tools)])


def servers_text(tools: SessionTools) -> str:
    """The MCP servers and their tools, in lines."""
    servers = tools.servers
    if servers.is_opening:
        return "the MCP servers are being started"
    if not servers.names:
        return "no MCP servers; /mcp FILE starts those of a file"
    count = counted(len(servers.tools), "tool")
    names = ", ".join(map(printable, servers.names))
    head = f"MCP servers {names}: {count}"
    return "\n".join([head, *_lines(servers.tools.values(), tools), *servers.problems])


def schema_text(tools: SessionTools) -> str:
    """The schema of replies on one line; a long one is cut."""
    if tools.schema is None:
        return "none; /schema FILE holds replies to that of a file"
    return printable(" ".join(tools.schema.split()), _SCHEMA)


def _lines(listed: Iterable[Tool], tools: SessionTools) -> Iterator[str]:
    for tool in listed:
        arguments = ", ".join(printable(name) for name in tool.parameters.get("properties", {}))
        about = printable(" ".join(tool.description.split()), _DESCRIPTION)
        allowed = "runs without a question" if tool.name in tools.allowed else ""
        head = f"{tool.name}({printable(arguments)})"
        yield " · ".join(part for part in (head, about, allowed) if part)
