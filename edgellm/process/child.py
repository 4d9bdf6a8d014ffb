"""The child process as its parent sees it: asked and answered, stopped, and buried with its last words."""

import io
import os
import subprocess
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from queue import Empty
from typing import IO, BinaryIO, cast

from edgellm.process.call_thread import CallThread, Outcome
from edgellm.process.spawn import exit_reason, start, stderr_tail, stderr_text
from edgellm.process.wire import CLEAR, PROGRESS, STOP, receive, send

OnProgress = Callable[[bytes], None]
_POLL_S, _EXIT_TIMEOUT_S = 0.3, 3.0


class ChildProcess:
    """A process of its own that runs a module of ours, with `edgellm.process.serve`.

    A stopped computation may go on for `stop_timeout_s` before the process is killed, far above what one step takes; and it
    may work for `reply_timeout_s` without a word.

    Not for several threads at once; only `stop` may be called from any. Raises `ended_error` if it cannot be started.
    """

    stop_timeout_s, reply_timeout_s = 3.0, inf

    def __init__(self, module: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        try:
            self._process = start(self._log, module)
        except OSError as error:
            self._log.close()
            raise self.ended_error(f"could not be started ({error.strerror})") from None
        self._requests = cast(BinaryIO, self._process.stdin)
        self._replies = cast(BinaryIO, io.BufferedReader(cast(io.FileIO, self._process.stdout)))
        # Threads do the talking: an interrupt in ours never leaves a message half written or read, and a process that
        # reads nothing any more holds up nobody who wants to stop it.
        self._sender, self._exchanger = CallThread(module), CallThread(module)
        self._lock = threading.RLock()
        self._stopped = False
        self._progress = deque[bytes]()
        self._killed, self._is_elsewhere = "", False
        threads = self._sender, self._exchanger
        self.close = weakref.finalize(self, _end, self._process, self._requests, self._replies, self._log, *threads)
        _CHILDREN.add(self)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def ended_error(self, how: str) -> Exception:
        """What `ask` raises once the process has ended; `how` it did completes a sentence."""
        raise NotImplementedError

    def call(
        self, request: int, payload: bytes = b"", on_progress: OnProgress = lambda payload: None
    ) -> tuple[int, bytes]:
        """Ask and wait for the reply; `on_progress` gets the payloads of progress. Raises `ended_error` once the process has ended.

        An exception in this thread, such as KeyboardInterrupt, stops the computation; it is raised when that is done.
        """
        self._progress.clear()
        if self._is_elsewhere:
            raise self.ended_error("belongs to the process from which this one was forked")
        if not self.close.alive:
            raise self.ended_error("was closed")
        exchange = _exchange, self._sender, self._requests, self._replies, self._progress, request, payload
        try:
            return self._wait(self._exchanger.submit(*exchange), on_progress)
        except _EndedError:
            raise self.ended_error(self._ending()) from None
        except BaseException:
            self.stop()
            self._wait_through_interrupts()
            self.clear_stop()
            raise

    def stop(self) -> None:
        """Stop what is computed now, or next, until `clear_stop`. From any thread."""
        if self._is_elsewhere:
            return
        with self._lock:
            self._stopped = True
            self._sender.submit(send, self._requests, STOP)

    def clear_stop(self) -> None:
        """Forget an earlier `stop`."""
        if self._is_elsewhere:
            return
        with self._lock:
            if self._stopped:
                self._stopped = False
                self._sender.submit(send, self._requests, CLEAR)

    def stderr_tail(self) -> str:
        """The last lines that the process wrote on stderr, as one, harmless to a terminal; "" if there are none."""
        return stderr_tail(self._log)

    def stderr_text(self) -> str:
        """All that it wrote there."""
        return stderr_text(self._log)

    def abandon(self) -> None:
        """In a process that was forked: leave it to the other one, which alone has the threads that exchange to it.

        Without our ends of its pipes, it still ends with the other process. A thread may have been reading at the fork,
        whose lock nobody gives back: the files are neither closed nor forgotten.
        """
        self._is_elsewhere = True
        if not self.close.alive:
            return
        _ABANDONED.append(self.close.detach())
        with open(os.devnull, "r+b", buffering=0) as nothing:  # noqa: PTH123 (its name is no path everywhere)
            for pipe in (self._requests, self._replies):
                os.dup2(nothing.fileno(), pipe.fileno(), inheritable=False)

    def _wait(self, reply: Outcome[tuple[int, bytes]], on_progress: OnProgress) -> tuple[int, bytes]:
        # Looks are counted: a clock goes on while this machine sleeps, or while we are suspended, and the process too.
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
        """Wait until nothing is being asked any more, through any number of interrupts."""
        while True:
            try:
                self._wait(self._exchanger.submit(lambda: (0, b"")), lambda payload: None)
                return
            except BaseException:
                continue

    def _ending(self) -> str:
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


class _EndedError(Exception):
    """The process has ended."""


def _exchange(
    sender: CallThread, requests: BinaryIO, replies: BinaryIO, progress: deque[bytes], request: int, payload: bytes
) -> tuple[int, bytes]:
    """Ask, take note of progress, and return the reply."""
    sender.submit(send, requests, request, payload)  # where that fails, there is no reply either
    try:
        while (message := receive(replies))[0] == PROGRESS:
            progress.append(message[1])
    except (EOFError, OSError):
        raise _EndedError from None
    return message


def _end(
    process: subprocess.Popen[bytes],
    requests: BinaryIO,
    replies: BinaryIO,
    log: IO[bytes],
    sender: CallThread,
    exchanger: CallThread,
) -> None:
    """Let a process end and forget it; nothing may be computing, or else it is killed."""
    sender.submit(requests.close)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_EXIT_TIMEOUT_S)
    finally:  # also if interrupted: this is called only once
        process.kill()
        process.wait()
        sender.close()
        exchanger.close()
        replies.close()
        log.close()
