"""One MCP server: its session, its tools, and calls of these. All of it runs in the event loop of one thread."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp import Client, ClientSession, MCPError, types
from pydantic import TypeAdapter, ValidationError

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.mcp.config import ServerSettings
from edgellm.mcp.content import content_text
from edgellm.mcp.transport import ServerProcess

MAX_TOOLS = 1000
_MAX_PAGES = 100
_MAX_RESTARTS = 3
_STOP_S = 4.0
_RESULT = TypeAdapter[Any](types.CallToolResult | types.InputRequiredResult)

for _name in ("mcp", "client"):  # loggers of the package; Python prints warnings of loggers without handlers
    logging.getLogger(_name).addHandler(logging.NullHandler())


class _RefusedError(Exception):
    """A server is not used. The text says why, in words that follow its name."""


class ServerConnection:
    """A server that runs. The package's session must be opened and closed by one task, which this starts.

    A server that has ended is started again for the next call, `_MAX_RESTARTS` times. No call is sent twice: the server
    may have done what it asks.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.name, self._settings = settings.name, settings
        self.tools = list[types.Tool]()
        self._restarts, self._timeout_s = 0, 0.0
        self._restarting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._process = ServerProcess(self._settings)
        self._session: ClientSession | None = None
        self._is_open, self._end = asyncio.Event(), asyncio.Event()

    async def open(self, timeout_s: float) -> None:
        """Start the server and list its tools. Raises EdgeLLMError that quotes the server's stderr."""
        self._timeout_s = timeout_s
        self._task = asyncio.create_task(self._serve())
        opened = asyncio.create_task(self._is_open.wait())
        await asyncio.wait([self._task, opened], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if self._task.done():
            await self._task
        elif not self._is_open.is_set():
            await self.close()
            raise self._error(f"did not answer within {timeout_s:g} s{self._process.log}")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The result of a call as text; also what went wrong is text."""
        async with self._restarting:
            if self._session is None or self._process.is_gone:
                try:
                    await self._restart()
                except EdgeLLMError as error:
                    return f"error: {error}"
        assert self._session
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            result = await self._session.send_request(types.CallToolRequest(params=params), _RESULT)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                return f"error: the MCP server {printable(self.name)} {await self._process.how_it_ended()}"
            return f"error: {printable(error.message, 400)}"
        except ValidationError:
            return f"error: the MCP server {printable(self.name)} answered with what is no result of a tool"
        if isinstance(result, types.InputRequiredResult):
            return f"error: the MCP server {printable(self.name)} asks for more input, which it cannot get here"
        return content_text(result)

    async def _restart(self) -> None:
        """Start the server again. Raises EdgeLLMError."""
        if self._restarts == _MAX_RESTARTS:
            ended = await self._process.how_it_ended()
            raise self._error(f"{ended}, after it was started again {_MAX_RESTARTS} times")
        self._restarts += 1
        await self.close()
        self._reset()
        await self.open(self._timeout_s)

    async def close(self) -> None:
        """End the session and the process."""
        if self._task is None:
            return
        self._end.set()
        await asyncio.wait([self._task], timeout=_STOP_S if self._is_open.is_set() else 0)
        self._task.cancel()
        with suppress(asyncio.CancelledError, EdgeLLMError):
            await self._task

    def kill(self) -> None:
        """End the process at once, from any thread."""
        self._process.kill()

    async def _serve(self) -> None:
        try:
            async with Client(self._process) as client:
                self._session = client.session
                self.tools = await self._listed(client.session)
                self._is_open.set()
                await self._end.wait()
        except Exception as error:
            raise self._error(await self._problem(error)) from None

    async def _listed(self, session: ClientSession) -> list[types.Tool]:
        found, cursor = list[types.Tool](), None
        if session.server_capabilities and session.server_capabilities.tools is None:
            return found
        for _ in range(_MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await session.send_request(types.ListToolsRequest(params=params), types.ListToolsResult)
            found, cursor = found + page.tools, page.next_cursor
            if not cursor or len(found) > MAX_TOOLS:
                break
        if cursor or len(found) > MAX_TOOLS:
            raise _RefusedError(f"lists more than {MAX_TOOLS:,} tools, or more than {_MAX_PAGES} pages of them")
        return found

    async def _problem(self, error: Exception) -> str:
        """What is wrong with a server that does not open, as words after its name."""
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, _RefusedError):
            return str(error)
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            return await self._process.how_it_ended()
        if isinstance(error, OSError):
            return f"cannot be started: {printable(f'{error.strerror or error}: {error.filename}', 200)}"
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            return f"does not follow MCP: {printable(place + ': ' + first['msg'], 200)}{self._process.log}"
        return f"cannot be used: {printable(str(error), 300)}{self._process.log}"

    def _error(self, problem: str) -> EdgeLLMError:
        return EdgeLLMError(f"MCP server {printable(self.name)} {problem}; mend it, or disable it in the file")
