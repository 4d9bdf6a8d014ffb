"""One run of a command: its output is kept up to a limit, and its process group ends with it."""

import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from edgellm.fmt import printable
from edgellm.process.group import KILL, NEW_GROUP, TERM, signal_group
from edgellm.process.spawn import exit_reason
from edgellm.tools.results import MAX_RESULT_BYTES, result_text

_STOPPED = "the user stopped the command"
_STDERR_BYTES = 4_000
_POLL_S = 0.05
_TERM_S = 0.5
"""Seconds that a process has to end between SIGTERM and SIGKILL."""
_DRAIN_S = 0.5
"""Seconds for what is still in the pipes once the process has ended; a process outside its group may hold them open."""


def run_command(
    argv: Sequence[str], stdin: bytes, folder: Path | None, timeout_s: float, cancelled: threading.Event
) -> str:
    """Run a command in a process group of its own; return its output as text for a model.

    That is stdout; if the command failed, then also how, and the end of stderr. A run ends when its first process does,
    at the timeout, when `cancelled` is set, or with an exception in this thread; what is left of the group is killed.
    It has no terminal to ask on.
    """
    if cancelled.is_set():
        return f"[{_STOPPED}]"
    try:
        process = _start(argv, stdin, folder)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return f"error: {printable(argv[0])} cannot be run: {printable(reason)}"
    try:
        assert process.stdout and process.stderr
        out, err = _BoundedOutput(process.stdout, MAX_RESULT_BYTES), _BoundedOutput(process.stderr, _STDERR_BYTES, True)
        problem = _wait(process, timeout_s, cancelled)
    finally:
        _end_group(process)
    end = time.monotonic() + _DRAIN_S
    stdout, stderr = out.wait(end), err.wait(end)
    text = result_text(stdout, out.nbytes)
    return f"{text.rstrip()}\n[{problem}]\n{result_text(stderr, len(stderr))}".strip() if problem else text


def _start(argv: Sequence[str], stdin: bytes, folder: Path | None) -> subprocess.Popen[bytes]:
    """Start a process whose stdin is a file: a command that does not read it holds nothing up."""
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        pipes: dict[str, Any] = {"stdin": file, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
        return subprocess.Popen(argv, cwd=folder, **pipes, **NEW_GROUP)


def _wait(process: subprocess.Popen[bytes], timeout_s: float, cancelled: threading.Event) -> str:
    """Wait for the process; returns how it ended other than well, as words."""
    end = time.monotonic() + timeout_s
    while process.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
            break
        if cancelled.is_set():
            return _STOPPED
        if time.monotonic() > end:
            return f"the command took longer than {timeout_s:g} s and was ended"
    return f"the command {exit_reason(process.returncode)}" if process.returncode else ""


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all others in its group. One with the rights of another user may stay."""
    if process.poll() is None:
        signal_group(process.pid, TERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TERM_S)
    signal_group(process.pid, KILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_TERM_S)


class _BoundedOutput:
    """Reads a pipe to its end in a thread, and keeps `limit` bytes: the first ones, or with `tail` the last ones.

    `nbytes` counts all bytes.
    """

    def __init__(self, pipe: IO[bytes], limit: int, tail: bool = False) -> None:
        self.nbytes, self._kept, self._limit, self._tail = 0, b"", limit, tail
        self._thread = threading.Thread(target=self._read, args=(pipe,), name="command output", daemon=True)
        self._thread.start()

    def wait(self, end: float) -> str:
        """The kept text, at the end of the pipe or at a time of `time.monotonic`."""
        self._thread.join(max(0.0, end - time.monotonic()))
        return self._kept.decode(errors="replace")

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe, suppress(OSError):
            while chunk := pipe.read(1 << 16):
                self.nbytes += len(chunk)
                if self._tail:
                    self._kept = (self._kept + chunk)[-self._limit :]
                elif len(self._kept) < self._limit:
                    self._kept += chunk[: self._limit - len(self._kept)]
