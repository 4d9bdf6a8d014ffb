"""The thread that kills the child process when a request exceeds its limits."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from edgellm.text.rendering.limits import MIB, TOO_LARGE, TOO_LONG, RenderLimits

_CHECK_S, _MAX_S = 0.02, 30.0
_IDLE_MEMORY = 48 * MIB
_CPU_SLACK_S = 0.1 if sys.platform == "win32" else 1.0
"""Seconds of CPU time beyond the limit. All systems but Windows enforce the limit themselves, usually before that."""


class RenderWatchdog:
    """Checks the process during requests; `kill` is called with the reason."""

    def __init__(self, pid: int, kill: Callable[[str], None]) -> None:
        self._pid, self._kill = pid, kill
        self._requests: SimpleQueue[tuple[RenderLimits, threading.Event] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="rendering watchdog", daemon=True).start()

    @contextmanager
    def watching(self, limits: RenderLimits) -> Iterator[None]:
        """Watch the process during a request with these limits."""
        answered = threading.Event()
        self._requests.put((limits, answered))
        try:
            yield
        finally:
            answered.set()

    def close(self) -> None:
        """End the thread."""
        self._requests.put(None)

    def _work(self) -> None:
        while request := self._requests.get():
            limits, answered = request
            if not answered.wait(_CHECK_S):
                self._check(limits, answered)

    def _check(self, limits: RenderLimits, answered: threading.Event) -> None:
        started_s, _ = self._usage()
        # Checks are counted instead of reading a clock, which goes on while this machine sleeps.
        checks = 0
        while not answered.wait(_CHECK_S):
            checks += 1
            cpu_s, memory = self._usage()
            if memory > limits.memory + _IDLE_MEMORY:
                self._kill(TOO_LARGE)
            elif cpu_s - started_s > limits.cpu_s + _CPU_SLACK_S or checks * _CHECK_S > _MAX_S:
                self._kill(TOO_LONG)

    def _usage(self) -> tuple[float, int]:
        """Seconds of CPU time and bytes of memory of the process; zeros if they are not available."""
        import psutil  # imported only if a request takes long, as the import takes a while, too

        try:
            process = psutil.Process(self._pid)
            times = process.cpu_times()
            return times.user + times.system, process.memory_info().rss
        except psutil.Error:
            return 0.0, 0
