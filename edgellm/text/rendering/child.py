"""The child process that renders templates, as its parent sees it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, BinaryIO, cast

from edgellm.process.spawn import exit_reason
from edgellm.process.wire import receive, send
from edgellm.text.rendering.codes import READY
from edgellm.text.rendering.limits import STARTING, TOO_LONG, RenderLimits
from edgellm.text.rendering.watchdog import RenderWatchdog

_END_S = 1.0
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")
"""Environment variables that Python may need to start, and the time zone of templates; others may be secret."""

_MAIN = "import sys; sys.path += sys.argv[1:]; from edgellm.text.rendering.serve import main; main()"


class RenderingChild:
    """Only one thread may use it at a time, except for `kill`. Raises OSError if the process cannot be started."""

    def __init__(self) -> None:
        self._process = _start()
        self._requests = cast(BinaryIO, self._process.stdin)
        self._replies = cast(BinaryIO, self._process.stdout)
        self._ready = False
        self._verdict = ""
        self._watchdog = RenderWatchdog(self._process.pid, self.kill)

    @property
    def ended(self) -> bool:
        """Whether the process has ended or is being killed."""
        return bool(self._verdict) or self._process.poll() is not None

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """The code and the JSON of the reply. Raises EOFError or OSError if the process has ended."""
        if not self._ready:
            with self._watchdog.watching(STARTING):
                self._ready = receive(self._replies, 0)[0] == READY
        limits = RenderLimits.of(len(request))
        with self._watchdog.watching(limits):
            send(self._requests, 0, request)
            return receive(self._replies, limits.reply)

    def kill(self, verdict: str) -> None:
        """Kill the process; any thread may call it. `verdict` is the reason, for `failure_reason`."""
        self._verdict = self._verdict or verdict
        self._process.kill()

    def failure_reason(self) -> str:
        """The reason why there was no reply."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        code = self._process.poll()
        if code is not None and code in (-getattr(signal, "SIGPROF", 0), -getattr(signal, "SIGXCPU", 0)):
            return TOO_LONG
        return self._verdict or f"the process that renders it {'broke off' if code is None else exit_reason(code)}"

    def close(self) -> None:
        """End the process and release its pipes."""
        self._watchdog.close()
        self._process.kill()
        self._process.wait()
        self._requests.close()
        self._replies.close()

    def disown(self) -> None:
        """Release the pipes, in a fork of the parent process; the child stays the parent's."""
        self._requests.close()
        self._replies.close()
        self._process.returncode = 0


def _start() -> subprocess.Popen[bytes]:
    """Start Python, isolated from the user's folders and from this process's environment and terminal."""
    executable = sys.executable or ""
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        # The executable of a virtual environment would start another process.
        executable = getattr(sys, "_base_executable", executable)
        options = {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    return subprocess.Popen(
        [executable, "-I", "-S", "-c", _MAIN, *_folders()],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(os.sep).absolute(),
        env={name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ},
        **options,
    )


def _folders() -> list[str]:
    """The folders where the child finds this package and Jinja2, without the folder that Python was started in."""
    places = [place for i, place in enumerate(sys.path) if place and (i or place != _current_folder())]
    specs = [PathFinder.find_spec(name, places) for name in ("jinja2", "markupsafe")]
    found = [str(Path(spec.origin).absolute().parents[1]) for spec in specs if spec and spec.origin]
    return list(dict.fromkeys([*found, str(Path(__file__).absolute().parents[3])]))


def _current_folder() -> str:
    with suppress(OSError):
        return str(Path.cwd())
    return ""
