"""A child process, as its parent sees it: called, stopped, ended."""

import io
import os
import subprocess
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from queue import Empty
from typing import BinaryIO, cast

from edgellm.process.call_thread import CallThread, Outcome
from edgellm.process.exchange import EndedError, end_process, exchange
from edgellm.process.spawn import exit_reason, start, stderr_tail, stderr_text
from edgellm.process.wire import CLEAR, STOP, send

OnProgress = Callable[[bytes], None]
_POLL_S = 0.3


class ChildProcess:
    """A process that runs one of our modules, given with its arguments, which calls `edgellm.process.serve.serve`.

    The process is killed if a stopped call takes `stop_timeout_s` more, or if a call sends neither a reply nor progress
    for `reply_timeout_s`.

    Not for several threads at once; only `stop` may be called from any. Raises `ended_error` if it cannot be started.
    """

    stop_timeout_s, reply_timeout_s = 3.0, inf

    def __init__(self, *module: str, inherited: Sequence[int] = ()) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        try:
            self._process = start(self._log, *module, inherited=inherited)
        except OSError as error:
            self._log.close()
            raise self.ended_error(f"could not be started ({error.strerror})") from None
        self._requests = cast(BinaryIO, self._process.stdin)
        self._replies = cast(BinaryIO, io.BufferedReader(cast(io.FileIO, self._process.stdout)))
        # Threads write and read: an interrupt in the calling thread leaves no message half written or read, and `stop`
        # never waits for a process that does not read.
        self._sender, self._exchanger = CallThread(module[0]), CallThread(module[0])
        self._lock = threading.RLock()
        self._stopped = False
        self._progress = deque[bytes]()
        self._killed, self._is_abandoned = "", False
        threads = self._sender, self._exchanger
        self.close = weakref.finalize(
            self, end_process, self._process, self._requests, self._replies, self._log, *threads
        )
        _CHILDREN.add(self)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def ended_error(self, how: str) -> Exception:
        """The exception that `call` raises once the process has ended; `how` completes a sentence about the process."""
        raise NotImplementedError

    def call(
        self, request: int, payload: bytes = b"", on_progress: OnProgress = lambda payload: None
    ) -> tuple[int, bytes]:
        """Send a request and wait for its reply; `on_progress` gets the payloads of progress messages.

        Raises `ended_error` once the process has ended. An exception in this thread, such as KeyboardInterrupt, stops
        the call, and is raised when it has stopped.
        """
        self._progress.clear()
        if self._is_abandoned:
            raise self.ended_error("belongs to the process from which this one was forked")
        if not self.close.alive:
            raise self.ended_error("was closed")
        arguments = self._sender, self._requests, self._replies, self._progress, request, payload
        try:
            return self._wait(self._exchanger.submit(exchange, *arguments), on_progress)
        except EndedError:
            raise self.ended_error(self._how_it_ended()) from None
        except BaseException:
            self.stop()
            self._wait_through_interrupts()
            self.clear_stop()
            raise

    def stop(self) -> None:
        """Stop the running call, or the next, until `clear_stop`. From any thread."""
        if self._is_abandoned:
            return
        with self._lock:
            self._stopped = True
            self._sender.submit(send, self._requests, STOP)

    def clear_stop(self) -> None:
        """Forget an earlier `stop`."""
        if self._is_abandoned:
            return
        with self._lock:
            if self._stopped:
                self._stopped = False
                self._sender.submit(send, self._requests, CLEAR)

    def stderr_tail(self) -> str:
        """The last lines that the process wrote to stderr, as one printable line; "" if there are none."""
        return stderr_tail(self._log)

    def stderr_text(self) -> str:
        """All text that the process wrote to stderr."""
        return stderr_text(self._log)

    def abandon(self) -> None:
        """In a forked process: leave the child to the original process, which alone has the threads that talk to it.

        Our ends of its pipes are replaced, so that it still ends with the original process. A thread may have held the
        lock of a file at the fork, so the files are neither closed nor freed.
        """
        self._is_abandoned = True
        if not self.close.alive:
            return
        _ABANDONED.append(self.close.detach())
        with open(os.devnull, "r+b", buffering=0) as nothing:  # noqa: PTH123 (on Windows it is not a path)
            for pipe in (self._requests, self._replies):
                os.dup2(nothing.fileno(), pipe.fileno(), inheritable=False)

    def _wait(self, reply: Outcome[tuple[int, bytes]], on_progress: OnProgress) -> tuple[int, bytes]:
        # Polls are counted, as a clock also runs while this machine sleeps, or while both processes are suspended.
        silent = stopped = 0
        while True:
            done, silent = None, silent + 1
            with suppress(Empty):
                done = reply.get(timeout=_POLL_S)
            while self._progress:
                silent = 0
                on_progress(self._progress.popleft())
            if done:
                return done()
            stopped = stopped + 1 if self._stopped else 0
            self._kill_if_hung(_POLL_S * silent, _POLL_S * stopped)

    def _kill_if_hung(self, silent_s: float, stopped_s: float) -> None:
        if stopped_s > self.stop_timeout_s:
            self._killed = f"did not stop within {self.stop_timeout_s:g} s and was killed"
        elif silent_s > self.reply_timeout_s:
            self._killed = f"did not answer within {self.reply_timeout_s:g} s and was killed"
        else:
            return
        self._process.kill()

    def _wait_through_interrupts(self) -> None:
        """Wait for the end of the call, through any number of interrupts."""
        while True:
            try:
                self._wait(self._exchanger.submit(lambda: (0, b"")), lambda payload: None)
                return
            except BaseException:
                continue

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return self._killed or exit_reason(code)


_CHILDREN: weakref.WeakSet[ChildProcess] = weakref.WeakSet()
_ABANDONED: list[object] = []


def _abandon_all() -> None:
    for child in list(_CHILDREN):
        child.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
