"""The tools that replies may call, and the schema that they follow, in this run of the program; neither is stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from edgellm.errors import EdgeLLMError
from tui.core.mcp_servers import McpServers
from tui.core.reply_schema import checked_schema

if TYPE_CHECKING:
    from edgellm.tools.tool import Tool
    from tui.core.events import Emit, ServersOpened

_EXCLUDE = "replies that follow a schema call no tools: {} off first"


class SessionTools:
    """Commands and MCP servers as tools; `allowed` are the names of those that run without a question.

    `cancelled` ends the calls that run while it is set. `schema` is the JSON schema of replies as text, None without
    one. Methods raise EdgeLLMError, in one line.
    """

    def __init__(self, emit: Emit) -> None:
        self.cancelled = Event()
        self.servers = McpServers(emit, self.cancelled)
        self.commands: dict[str, Tool] = {}
        self.allowed: set[str] = set()
        self.schema: str | None = None

    @property
    def tools(self) -> dict[str, Tool]:
        """All tools by name."""
        return {**self.commands, **self.servers.tools}

    def use_commands(self, path: Path) -> None:
        """Offer the commands of a file, in place of those before."""
        from edgellm.tools.commands import read_commands  # on demand

        self._check_free()
        found = read_commands(path, self.cancelled)
        self._check_names(found, self.servers.tools)
        self.drop_commands()
        self.commands = found

    def drop_commands(self) -> None:
        """Offer no commands."""
        self.allowed -= self.commands.keys()
        self.commands = {}

    def open_servers(self, path: Path) -> None:
        """Start the MCP servers of a file, in place of those before once they run; ServersOpened follows."""
        self._check_free()
        self.servers.open(path)

    def on_servers(self, event: ServersOpened) -> bool:
        """Take the servers that were started; those before stay if none were. Returns whether they are wanted."""
        if not self.servers.is_wanted(event):
            self.servers.refuse(event)
            return False
        before = self.servers.tools
        try:
            self._check_names(event.servers.tools if event.servers else {}, self.commands)
        except EdgeLLMError:
            self.servers.refuse(event)
            raise
        self.servers.take(event)
        if event.servers:
            self.allowed -= before.keys()
        return True

    def drop_servers(self) -> None:
        """End all MCP servers."""
        self.allowed -= self.servers.tools.keys()
        self.servers.end()

    def use_schema(self, text: str, origin: str, options: Mapping[str, Any]) -> None:
        """Hold replies to a schema from `origin`, a file or a command; `options` are the others of the replies."""
        if self.tools or self.servers.is_opening:
            raise EdgeLLMError(_EXCLUDE.format("/tools" if self.commands else "/mcp"))
        self.schema = checked_schema(text, origin, options)

    def drop_schema(self) -> None:
        """Leave replies free."""
        self.schema = None

    def options(self) -> dict[str, Any]:
        """The options of `edgellm.chat.Chat.reply`."""
        if self.schema is not None:
            return {"json_schema": self.schema}
        return {"tools": list(tools.values())} if (tools := self.tools) else {}

    def _check_free(self) -> None:
        if self.schema is not None:
            raise EdgeLLMError(_EXCLUDE.format("/schema"))

    @staticmethod
    def _check_names(found: Mapping[str, Tool], others: Mapping[str, Tool]) -> None:
        if both := sorted(found.keys() & others.keys()):
            raise EdgeLLMError(f"a command and a tool of an MCP server have the name {both[0]}; rename the command")
