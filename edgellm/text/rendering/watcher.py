"""The thread that kills a process when a request takes more than it may."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from edgellm.text.rendering.limits import MIB, TOO_LARGE, TOO_LONG, Limits

_LOOK_S, _PATIENCE_S = 0.02, 30.0
_IDLE_MEMORY = 48 * MIB
_CPU_SLACK_S = 0.1 if sys.platform == "win32" else 1.0  # elsewhere the kernel keeps the limit, and is to be first


class Watcher:
    """Looks at the process while it is asked; `kill` gets the reason."""

    def __init__(self, pid: int, kill: Callable[[str], None]) -> None:
        self._pid, self._kill = pid, kill
        self._requests: SimpleQueue[tuple[Limits, threading.Event] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="rendering watcher", daemon=True).start()

    @contextmanager
    def watching(self, limits: Limits) -> Iterator[None]:
        """Watch during a request with these limits."""
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
            if not answered.wait(_LOOK_S):
                self._look(limits, answered)

    def _look(self, limits: Limits, answered: threading.Event) -> None:
        started_s, _ = self._usage()
        # Looks are counted: a clock goes on while this machine sleeps.
        looks = 0
        while not answered.wait(_LOOK_S):
            looks += 1
            cpu_s, memory = self._usage()
            if memory > limits.memory + _IDLE_MEMORY:
                self._kill(TOO_LARGE)
            elif cpu_s - started_s > limits.cpu_s + _CPU_SLACK_S or looks * _LOOK_S > _PATIENCE_S:
                self._kill(TOO_LONG)

    def _usage(self) -> tuple[float, int]:
        """Seconds of CPU time and bytes of memory; zeros where the process is gone or does not tell."""
        import psutil  # only where a request takes that long: the import, too, takes a while

        try:
            process = psutil.Process(self._pid)
            times = process.cpu_times()
            return times.user + times.system, process.memory_info().rss
        except psutil.Error:
            return 0.0, 0
