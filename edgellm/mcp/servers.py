"""The MCP servers of a file, and their tools."""

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.mcp.config import ServerSettings, read_servers
from edgellm.mcp.loop_thread import CallStoppedError, LoopThread
from edgellm.system.optional_packages import install_command
from edgellm.tools.tool import Tool

if TYPE_CHECKING:
    from edgellm.mcp.connection import ServerConnection

START_S = 60.0
"""Seconds for a server to start: some are downloaded at their first start."""
CALL_S = 60.0
_CLOSE_S = 8.0


def open_servers(
    path: str | os.PathLike[str],
    cancelled: threading.Event | None = None,
    start_s: float = START_S,
    call_s: float = CALL_S,
    stop_start: threading.Event | None = None,
) -> "Servers":
    """Start the MCP servers that a file names, at the same time, and list their tools; close it after use.

    A server must start within `start_s` seconds and answer a call within `call_s`. From any thread, setting `cancelled`
    ends calls and the start within a second, and later ones at once, until it is cleared. With `stop_start`, that event
    ends the start, and `cancelled` calls alone.

    Raises OptionError for a fault in the file, and EdgeLLMError if it cannot be read, if a server does not start, or if
    the package mcp is not installed.
    """
    settings = read_servers(Path(path))
    try:
        import edgellm.mcp.connection  # noqa: F401 (imports mcp)
    except ImportError:
        advice = f"run `{install_command('mcp')}`, or pip install 'edgellm[mcp]'"
        raise EdgeLLMError(f"MCP servers need the package mcp, version 2.3 or later: {advice}") from None
    cancelled = cancelled or threading.Event()
    return Servers(settings, cancelled, stop_start or cancelled, start_s, call_s)


class Servers:
    """Servers that run. `tools` are their tools by name, `names` the names of the servers.

    `problems` has a line for each tool that is left out: its definition is not valid, or no guide follows its schema.
    """

    def __init__(
        self,
        settings: Sequence[ServerSettings],
        cancelled: threading.Event,
        stop_start: threading.Event,
        start_s: float,
        call_s: float,
    ) -> None:
        self.names = [each.name for each in settings]
        self.tools, self.problems = dict[str, Tool](), list[str]()
        self._cancelled, self._call_s, self._is_closed = cancelled, call_s, False
        self._connections = list["ServerConnection"]()
        self._thread = LoopThread("mcp")
        try:
            self._thread.result(self._open(settings, start_s), start_s + _CLOSE_S, stop_start)
            self._add_tools()
        except BaseException as error:
            self.close()
            if isinstance(error, CallStoppedError):
                raise EdgeLLMError("the start of the MCP servers was stopped") from None
            raise

    def close(self) -> None:
        """End all servers. Calls that still run, or come later, return an error as text."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._thread.result(self._close(), _CLOSE_S, threading.Event())
        except TimeoutError:
            pass
        finally:
            for connection in self._connections:
                connection.kill()
            self._thread.close()

    def __enter__(self) -> "Servers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _open(self, settings: Sequence[ServerSettings], start_s: float) -> None:
        from edgellm.mcp.connection import ServerConnection

        self._connections = [ServerConnection(each) for each in settings]
        opened = (connection.open(start_s) for connection in self._connections)
        for outcome in await asyncio.gather(*opened, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections), return_exceptions=True)

    def _add_tools(self) -> None:
        from edgellm.mcp.tools import add_tools

        for connection in self._connections:
            add_tools(self.tools, self.problems, connection.name, connection.tools, partial(self._call, connection))

    def _call(self, connection: "ServerConnection", tool: str, arguments: Mapping[str, Any]) -> str:
        server = f"the MCP server {printable(connection.name)}"
        if self._is_closed:
            return f"error: {server} is closed"
        try:
            return self._thread.result(connection.call(tool, arguments), self._call_s, self._cancelled)
        except TimeoutError:
            return f"error: {server} did not answer within {self._call_s:g} s"
        except CallStoppedError:
            return "error: the user stopped the call"
        except Exception as error:  # of the package mcp; a model goes on without the result
            return f"error: {server} cannot be called: {printable(str(error), 200)}"
