"""The MCP servers of this run of the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from tui.core.error_text import error_line
from tui.core.events import ServersOpened

if TYPE_CHECKING:
    from edgellm.mcp import Servers
    from edgellm.tools.tool import Tool
    from tui.core.events import Emit

_JOIN_TIMEOUT_S = 10.0


class McpServers:
    """The servers of one file. They start and end in threads, as that takes seconds; ServersOpened follows the start.

    `cancelled` ends the calls of servers while it is set. Each start has an event of its own, which ends it alone.
    """

    def __init__(self, emit: Emit, cancelled: Event) -> None:
        self._emit, self._cancelled = emit, cancelled
        self._open: Servers | None = None
        self._number = 0  # of the last request
        self._stop_start = Event()
        self._threads: list[Thread] = []
        self.is_opening = False

    @property
    def names(self) -> list[str]:
        """The names of the servers that are open."""
        return list(self._open.names) if self._open else []

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools of the servers that are open, by name."""
        return dict(self._open.tools) if self._open else {}

    @property
    def problems(self) -> list[str]:
        """A line for each tool that is left out."""
        return list(self._open.problems) if self._open else []

    def open(self, path: Path) -> None:
        """Start the servers of a file; those before stay until all of these run. Raises EdgeLLMError for its faults."""
        from edgellm.mcp.config import read_servers  # on demand

        read_servers(path)  # before anything starts or is said; `open_servers` reads it again
        self.stop_opening()
        self.is_opening, number = True, self._number
        self._stop_start = stop_start = Event()
        self._in_thread(lambda: self._start(path, number, stop_start))

    def _start(self, path: Path, number: int, stop_start: Event) -> None:
        try:
            from edgellm.mcp import open_servers  # on demand

            servers = open_servers(path, self._cancelled, stop_start=stop_start)
        except Exception as error:
            self._emit(ServersOpened(number, problem=error_line(error)))
            return
        if self._number != number:
            servers.close()  # the program may end before it takes the event
        self._emit(ServersOpened(number, servers))

    def is_wanted(self, event: ServersOpened) -> bool:
        """Whether the last request is the one that the event is about."""
        return event.number == self._number

    def take(self, event: ServersOpened) -> None:
        """Take servers that were started, in place of those before. These stay if the new ones did not start."""
        self.is_opening = False
        if event.servers:
            self._replace(event.servers)

    def refuse(self, event: ServersOpened) -> None:
        """End servers that were started; those before stay."""
        if self.is_wanted(event):
            self.is_opening = False
        if event.servers:
            self._in_thread(event.servers.close)

    def stop_opening(self) -> None:
        """End the start of servers, which takes up to a second; those that run stay."""
        self._number += 1
        self._stop_start.set()
        self.is_opening = False

    def end(self) -> None:
        """End the servers, also those that are being started."""
        self.stop_opening()
        self._replace(None)

    def _replace(self, servers: Servers | None) -> None:
        before, self._open = self._open, servers
        if before:
            self._in_thread(before.close)

    def close(self) -> None:
        """End all servers with the program, also those that are being started."""
        self.end()
        self._cancelled.set()
        for thread in self._threads:
            thread.join(_JOIN_TIMEOUT_S)

    def _in_thread(self, do: Callable[[], None]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(Thread(target=do, name="MCP servers", daemon=True))
        self._threads[-1].start()
