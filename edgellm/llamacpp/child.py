"""The child process as its parent sees it: asked and answered, stopped, and buried with its last words."""

import io
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from signal import Signals
from time import monotonic
from typing import IO, BinaryIO, cast

from edgellm.errors import EdgeLLMError
from edgellm.gguf.printable import printable
from edgellm.llamacpp.wire import Reply, Request, receive, send

_GRACE_S = 3.0
"""How long a stopped computation may go on before its process is killed: far above what one op takes."""


class Child:
    """A process of its own for llama.cpp. `name` is the model's, for messages.

    Not for several threads at once; only `stop` may be called from any.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process = start(self._log, "edgellm.llamacpp.worker")
        self._requests = cast(BinaryIO, self._process.stdin)
        self._replies = cast(BinaryIO, io.BufferedReader(cast(io.FileIO, self._process.stdout)))
        # A thread does the talking, so that an interrupt in ours never leaves a message half written or read.
        self._talker = ThreadPoolExecutor(1, "edgellm-llama.cpp")
        self._lock = threading.RLock()
        self._stopped: float | None = None
        self._hung = False
        self.close = weakref.finalize(self, _end, self._process, self._requests, self._replies, self._log, self._talker)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def ask(self, request: Request, payload: bytes = b"") -> tuple[Reply, bytes]:
        """Ask and wait for the reply. Raises EdgeLLMError, for good, once the process has ended.

        An exception in this thread, such as KeyboardInterrupt, stops the computation; it is raised when that is done.
        """
        try:
            return self._wait(self._talker.submit(self._talk, request, payload))
        except EdgeLLMError:
            raise
        except BaseException:
            self.stop()
            self._wait_whatever_comes()
            self.clear_stop()
            raise

    def stop(self) -> None:
        """Stop what is computed now, or next, until `clear_stop`. From any thread."""
        with self._lock:
            self._stopped = monotonic()
            self._tell(Request.STOP)

    def clear_stop(self) -> None:
        """Forget an earlier `stop`."""
        with self._lock:
            if self._stopped is not None:
                self._stopped = None
                self._tell(Request.CLEAR)

    def last_words(self) -> str:
        """The last lines that the process wrote on stderr, as one, harmless to a terminal; "" if there are none."""
        return last_words(self._log)

    def _tell(self, request: Request) -> None:
        with suppress(OSError, ValueError):  # ended or closed: there is nothing left to stop
            send(self._requests, request)

    def _talk(self, request: Request, payload: bytes) -> tuple[Reply, bytes]:
        try:
            with self._lock:
                send(self._requests, request, payload)
            code, answer = receive(self._replies)
            return Reply(code), answer
        except (EOFError, OSError):
            raise EdgeLLMError(self._obituary()) from None

    def _wait(self, reply: "Future[tuple[Reply, bytes]]") -> tuple[Reply, bytes]:
        while True:
            try:
                return reply.result(_GRACE_S / 10)
            except TimeoutError:
                since = self._stopped
                if since is not None and monotonic() - since > _GRACE_S:
                    self._hung = True
                    self._process.kill()

    def _wait_whatever_comes(self) -> None:
        """Wait until nothing is being asked any more, through any number of interrupts."""
        while True:
            try:
                self._wait(self._talker.submit(lambda: (Reply.OK, b"")))
                return
            except BaseException:
                continue

    def _obituary(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = ending(code)
        if self._hung:
            how = f"did not stop within {_GRACE_S:g} s and was killed"
        said = self.last_words()
        return (
            f"{self.name}: llama.cpp {how}{f' ({said})' if said else ''}; open the model again, or leave --engine out"
        )


def start(log: IO[bytes], *module: str) -> subprocess.Popen[bytes]:
    """Run a module of ours, by its name and arguments, in a process asked over pipes; stderr goes to `log`."""
    # -P: or else Python would look for modules in the user's current folder first, whatever lies there.
    command = [sys.executable, "-P", "-m", *module]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    # Without the last, ggml has a debugger look at the process that it is about to abort.
    env = {**os.environ, "PYTHONPATH": paths, "GGML_NO_BACKTRACE": "1"}
    return subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env)


def _end(
    process: subprocess.Popen[bytes],
    requests: BinaryIO,
    replies: BinaryIO,
    log: IO[bytes],
    talker: ThreadPoolExecutor,
) -> None:
    """Let a process end and forget it; nothing may be computing, or else it is killed."""
    requests.close()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    finally:  # also if interrupted: this is called only once
        process.kill()
        process.wait()
        talker.shutdown()
        replies.close()
        log.close()


def last_words(log: IO[bytes]) -> str:
    """The last lines that a process wrote on stderr, as one, harmless to a terminal; "" if there are none."""
    log.seek(0)
    lines = log.read().decode(errors="replace").split("\n")
    return printable("; ".join(line.strip() for line in lines if line.strip())[-300:], 300)


def ending(code: int) -> str:
    """How a process ended, by its exit code."""
    return f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {Signals(number).name}"
    except ValueError:
        return f"signal {number}"
