"""The process of an MCP server and its pipes: one JSON-RPC message a line, as the stdio transport of MCP has them.

(https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio) The transport of the package mcp reads
lines of any length, and lets servers write to the terminal; this one does neither.
"""

import asyncio
import io
import shutil
import time
from contextlib import suppress
from typing import Any

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from edgellm.fmt import size
from edgellm.mcp.config import ServerSettings
from edgellm.process.group import KILL, NEW_GROUP, TERM, signal_group
from edgellm.process.spawn import exit_reason, stderr_tail

MAX_MESSAGE = 16 << 20
"""Bytes of a message; a longer one ends the connection."""

_LOG_BYTES = 4_000
_EXIT_S = 1.0
"""Seconds that a server has to end once its stdin is closed, and again after SIGTERM."""
_REASON_S = 0.3
"""Seconds in which a process ends whose stdout has ended."""
_POLL_S = 0.01


class ServerProcess:
    """A server's process: an async context manager that gives the streams of its messages to a session.

    `is_gone`: no more messages come from it, or it takes none.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._tasks = list[asyncio.Task[None]]()
        self._log, self._problem = b"", ""
        self.is_gone = False
        self._is_read = self._is_ended = False  # stdout is read to its end; we ended the process
        self._exit_code: int | None = None

    async def __aenter__(self) -> tuple[Any, Any]:
        """Start the process. Raises OSError and ValueError."""
        settings, env = self._settings, get_default_environment() | dict(self._settings.env)
        program = shutil.which(settings.command, path=env.get("PATH")) or settings.command
        pipe = asyncio.subprocess.PIPE
        pipes: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "limit": MAX_MESSAGE}
        self._process = await asyncio.create_subprocess_exec(
            program, *settings.args, env=env, cwd=settings.folder, **pipes, **NEW_GROUP
        )
        to_session, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = to_session, read_stream, write_stream, from_session
        steps = self._read(self._process), self._write(self._process), self._read_log(self._process)
        self._tasks = [asyncio.create_task(step) for step in steps]
        return read_stream, write_stream

    async def __aexit__(self, *raised: object) -> None:
        """End the process and all others of its group."""
        with anyio.CancelScope(shield=True):
            assert self._process and self._process.stdin
            await self._note_exit()
            self._process.stdin.close()
            if self._exit_code is None:
                await self._end(self._process.pid)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for stream in self._streams:
                stream.close()
            with suppress(OSError):  # a process outside the group may hold pipes open; nothing public closes them
                self._process._transport.close()  # type: ignore[attr-defined]

    async def _end(self, pid: int) -> None:
        self._is_ended = True
        if not await self._ends_within(_EXIT_S):
            signal_group(pid, TERM)
            await self._ends_within(_EXIT_S)
        signal_group(pid, KILL)
        await self._ends_within(_EXIT_S)

    async def how_it_ended(self) -> str:
        """What ended the connection, in words that follow the server's name, and `log`."""
        await self._note_exit()
        ended = "closed the connection" if self._exit_code is None else exit_reason(self._exit_code)
        return (self._problem or ended) + self.log

    @property
    def log(self) -> str:
        """The last lines that the server wrote to stderr, in brackets behind a space; "" if there are none."""
        lines = stderr_tail(io.BytesIO(self._log))
        return f" ({lines})" if lines else ""

    def kill(self) -> None:
        """Kill the process and all others of its group at once."""
        if self._process and self._process.returncode is None:
            signal_group(self._process.pid, KILL)

    async def _note_exit(self) -> None:
        """Where stdout has ended, see whether the process has: keep its exit code, and end what it left running.

        That happens at once, as the id of a group may be given to another group later.
        """
        if not self._process or not self._is_read or self._is_ended or self._exit_code is not None:
            return
        if await self._ends_within(_REASON_S):
            self._exit_code = self._process.returncode
            signal_group(self._process.pid, KILL)

    async def _ends_within(self, seconds: float) -> bool:
        """Whether the process ends in time. Its `wait` would also wait for pipes that others may hold open."""
        end = time.monotonic() + seconds
        while self._process and self._process.returncode is None:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Give the messages on stdout to the session. Other lines belong to the log."""
        assert process.stdout
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while line := await self._line(process.stdout):
                try:
                    message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                except ValueError:
                    self._keep(line)
                else:
                    await self._streams[0].send(message)
        self._is_read = self.is_gone = True
        await self._note_exit()
        self._streams[0].close()

    async def _line(self, stdout: asyncio.StreamReader) -> bytes:
        """The next line; b"" at the end, and where a line is too long."""
        try:
            return await stdout.readline()
        except ValueError:
            self._problem = f"sent a message of more than {size(MAX_MESSAGE)}"
            return b""

    async def _write(self, process: asyncio.subprocess.Process) -> None:
        """Write the messages of the session to stdin. When the server reads no more, the session is told of the end."""
        assert process.stdin
        with suppress(OSError):
            async for message in self._streams[3]:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
            return
        self.is_gone = True
        self._streams[0].close()

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr
        while chunk := await process.stderr.read(1 << 16):
            self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        self._log = (self._log + chunk)[-_LOG_BYTES:]
