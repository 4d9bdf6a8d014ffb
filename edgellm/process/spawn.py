"""Starting a child process, how it ended, and what it wrote to stderr."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import IO, Any

from edgellm.fmt import printable


def start(log: IO[bytes], *module: str, inherited: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Run one of our modules, by its name and arguments, with pipes for stdin and stdout; stderr goes to `log`.

    It also gets the file descriptors `inherited`.
    """
    # -P keeps Python from importing modules from the user's current folder.
    command = [sys.executable, "-P", "-m", *module]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    # Users cannot read backtraces, and ggml starts a debugger for its own.
    env = {**os.environ, "PYTHONPATH": paths, "GGML_NO_BACKTRACE": "1", "RUST_BACKTRACE": "0"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
    process = subprocess.Popen(command, bufsize=0, env=env, pass_fds=inherited, **pipes)
    assert process.stdout
    _widen(process.stdout)
    return process


def _widen(pipe: IO[bytes]) -> None:
    """Let a pipe hold a reply with logits, on Linux: otherwise both processes wake up for each 64 KiB of it."""
    with suppress(ImportError, OSError):
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(pipe, F_SETPIPE_SZ, 1 << 20)


def stderr_text(log: IO[bytes]) -> str:
    """All text that a process wrote to stderr; "" once the log is closed."""
    if log.closed:
        return ""
    log.seek(0)
    return log.read().decode(errors="replace")


_TAIL = 300
"""Characters of the end of a log."""


def stderr_tail(log: IO[bytes]) -> str:
    """The last lines of that text as one printable line, up to 300 characters; "" if there are none.

    Where more is left out, the line begins with … and a whole word.
    """
    lines = "; ".join(line.strip() for line in stderr_text(log).split("\n") if line.strip())
    if len(lines) > _TAIL:
        end = lines[1 - _TAIL :]
        lines = f"…{end.partition(' ')[2] or end}"
    return printable(lines, _TAIL)


def exit_reason(code: int) -> str:
    """How a process ended, by its exit code."""
    return f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {Signals(number).name}"
    except ValueError:
        return f"signal {number}"
