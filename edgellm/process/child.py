"""The child process as its parent sees it: asked and answered, stopped, and buried with its last words."""

import io
import subprocess
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from math import inf
from time import monotonic
from typing import IO, BinaryIO, cast

from edgellm.process.spawn import ending, last_words, said, start
from edgellm.process.wire import CLEAR, NEWS, STOP, receive, send

Heard = Callable[[bytes], None]
_LOOK_S, _END_S = 0.3, 3.0


class Child:
    """A process of its own that runs a module of ours, with `edgellm.process.serve`.

    A stopped computation may go on for `grace_s` before the process is killed, far above what one step takes; and it
    may work for `patience_s` without a word.

    Not for several threads at once; only `stop` may be called from any.
    """

    grace_s, patience_s = 3.0, inf

    def __init__(self, module: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process = start(self._log, module)
        self._requests = cast(BinaryIO, self._process.stdin)
        self._replies = cast(BinaryIO, io.BufferedReader(cast(io.FileIO, self._process.stdout)))
        # A thread does the talking, so that an interrupt in ours never leaves a message half written or read.
        self._talker = ThreadPoolExecutor(1, module)
        self._lock = threading.RLock()
        self._stopped: float | None = None
        self._heard_at, self._news = 0.0, deque[bytes]()
        self._killed = ""
        self.close = weakref.finalize(self, _end, self._process, self._requests, self._replies, self._log, self._talker)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def epitaph(self, how: str) -> Exception:
        """What `ask` raises once the process has ended; `how` it did completes a sentence."""
        raise NotImplementedError

    def ask(self, request: int, payload: bytes = b"", heard: Heard = lambda payload: None) -> tuple[int, bytes]:
        """Ask and wait for the reply; `heard` gets the payloads of news. Raises `epitaph` once the process has ended.

        An exception in this thread, such as KeyboardInterrupt, stops the computation; it is raised when that is done.
        """
        self._news.clear()
        if not self.close.alive:
            raise self.epitaph("was closed")
        try:
            return self._wait(self._talker.submit(self._talk, request, payload), heard)
        except _EndedError as ended:
            raise self.epitaph(str(ended)) from None
        except BaseException:
            self.stop()
            self._wait_whatever_comes()
            self.clear_stop()
            raise

    def stop(self) -> None:
        """Stop what is computed now, or next, until `clear_stop`. From any thread."""
        with self._lock:
            self._stopped = monotonic()
            self._tell(STOP)

    def clear_stop(self) -> None:
        """Forget an earlier `stop`."""
        with self._lock:
            if self._stopped is not None:
                self._stopped = None
                self._tell(CLEAR)

    def last_words(self) -> str:
        """The last lines that the process wrote on stderr, as one, harmless to a terminal; "" if there are none."""
        return last_words(self._log)

    def said(self) -> str:
        """All that it wrote there."""
        return said(self._log)

    def _tell(self, request: int) -> None:
        with suppress(OSError, ValueError):  # ended or closed: there is nothing left to stop
            send(self._requests, request)

    def _talk(self, request: int, payload: bytes) -> tuple[int, bytes]:
        try:
            with self._lock:
                send(self._requests, request, payload)
            code = NEWS
            while code == NEWS:
                self._heard_at = monotonic()
                code, answer = receive(self._replies)
                if code == NEWS:
                    self._news.append(answer)
        except (EOFError, OSError):
            raise _EndedError(self._ending()) from None
        return code, answer

    def _wait(self, reply: "Future[tuple[int, bytes]]", heard: Heard) -> tuple[int, bytes]:
        self._heard_at = monotonic()
        while True:
            with suppress(TimeoutError):
                reply.exception(_LOOK_S)
            while self._news:
                heard(self._news.popleft())
            if reply.done():
                return reply.result()
            self._kill_if_hung()

    def _kill_if_hung(self) -> None:
        now, since = monotonic(), self._stopped
        if since is not None and now - since > self.grace_s:
            self._killed = f"did not stop within {self.grace_s:g} s and was killed"
        elif now - self._heard_at > self.patience_s:
            self._killed = f"did not answer within {self.patience_s:g} s and was killed"
        else:
            return
        self._process.kill()

    def _wait_whatever_comes(self) -> None:
        """Wait until nothing is being asked any more, through any number of interrupts."""
        while True:
            try:
                self._wait(self._talker.submit(lambda: (0, b"")), lambda payload: None)
                return
            except BaseException:
                continue

    def _ending(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return self._killed or ending(code)


class _EndedError(Exception):
    """The process has ended; the text says how."""


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
            process.wait(_END_S)
    finally:  # also if interrupted: this is called only once
        process.kill()
        process.wait()
        talker.shutdown()
        replies.close()
        log.close()
