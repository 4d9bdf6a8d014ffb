"""The MCP servers of this run of the program."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from tui.core.error_text import error_line
from tui.core.events import ServersOpened

if TYPE_CHECKING:
    from edgellm.mcp import Servers

    from edgellm.tools.tool import Tool
    from tui.core.events import Emit

_JOIN_TIMEOUT_S = 3.0


class McpServers:
    """The servers of one file. They start in a thread of their own, as that takes seconds; ServersOpened follows.

    `cancelled` ends the calls that run while it is set.
    """

    def __init__(self, emit: Emit, cancelled: Event) -> None:
        self._emit, self._cancelled = emit, cancelled
        self._open: Servers | None = None
        self._number = 0  # of the last request
        self._thread: Thread | None = None
        self._closed = False

    @property
    def is_opening(self) -> bool:
        """Whether servers are being started."""
        return self._thread is not None

    @property
    def names(self) -> list[str]:
        """The names of the servers that are open."""
        return list(self._open.names) if self._open else []

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools of the servers that are open, by name."""
        return dict(self._open.tools) if self._open else {}

    def open(self, path: Path) -> None:
        """Start the servers of a file, in place of those before."""
        self.end()
        number = self._number
        self._thread = Thread(target=self._start, args=(path, number), name="MCP servers", daemon=True)
        self._thread.start()

    def _start(self, path: Path, number: int) -> None:
        """Runs in the thread. Servers that nobody wants any more end here: the program may not wait for the event."""
        try:
            from edgellm.mcp import open_servers  # imports what an extra installs

            servers = open_servers(path, self._cancelled)
        except Exception as error:
            self._emit(ServersOpened(number, problem=error_line(error)))
            return
        if self._closed:
            servers.close()
        self._emit(ServersOpened(number, servers))

    def on_opened(self, event: ServersOpened) -> bool:
        """Take servers that were started. Returns False, and ends them, if others are wanted by now."""
        wanted = event.number == self._number
        if wanted:
            self._open, self._thread = event.servers, None
        elif event.servers:
            event.servers.close()
        return wanted

    def end(self) -> None:
        """End the servers, and want none of those that are being started."""
        self._number += 1
        self._thread, servers, self._open = None, self._open, None
        if servers:
            servers.close()

    def close(self) -> None:
        """End the servers with the program, also those that are being started."""
        self._closed, starting = True, self._thread
        self.end()
        if starting:
            starting.join(_JOIN_TIMEOUT_S)
