"""The limits of one rendering request: CPU time, memory, and the size of the reply.

On Linux and macOS the kernel ends a process that exceeds its CPU time. On Linux the kernel also refuses more memory,
which Python reports as MemoryError. On every system the parent checks both, every few milliseconds, and kills the
process.
"""

import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

MIB = 1 << 20
TOO_LONG, TOO_LARGE = "it takes too long", "it takes too much memory"
"""The problem that is reported for a template that exceeds a limit."""


@dataclass(frozen=True)
class RenderLimits:
    """`cpu_s`: seconds of CPU time. `memory`: bytes beyond those of the idle process.

    `text`: characters of a reply. `runs`: runs of characters with one origin in it.
    """

    cpu_s: float
    memory: int
    text: int
    runs: int

    @classmethod
    def of(cls, request: int) -> Self:
        """The limits of a request of `request` bytes: those of a short conversation, plus a share for each byte.

        A template takes two requests, one that compiles and one that renders: both together take less than 1 s.
        """
        return cls(0.45 + request / MIB, 128 * MIB + 48 * request, MIB + 8 * request, 65_536 + request)

    @property
    def reply(self) -> int:
        """The largest reply in bytes: up to 6 for a character and 24 for a run."""
        return 6 * self.text + 24 * self.runs + MIB

    @contextmanager
    def enforced(self, idle_memory: int) -> Iterator[None]:
        """Have the operating system enforce the limits on this process, as far as it can."""
        if sys.platform == "win32":
            yield
            return
        signal.setitimer(signal.ITIMER_PROF, self.cpu_s)  # its signal ends a process that has no handler for it
        _limit_address_space(idle_memory and idle_memory + self.memory)
        try:
            yield
        finally:
            _limit_address_space(0)
            signal.setitimer(signal.ITIMER_PROF, 0)


def end_on_cpu_signal() -> None:
    """Let the kernel's signal end this process, even if its parent ignores or blocks the signal."""
    if sys.platform != "win32":
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])


def _limit_address_space(most: int) -> None:
    """Limit the address space of this process to `most` bytes; 0 removes the limit."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounded = most and (hard == resource.RLIM_INFINITY or most < hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most if bounded else hard, hard))


STARTING = RenderLimits(cpu_s=math.inf, memory=128 * MIB, text=0, runs=0)
"""The limits while the process starts."""


def address_space() -> int:
    """Bytes of this process's address space; 0 if unknown, as on all systems but Linux."""
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 (slow to import)
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def forbid_writing_and_processes() -> None:
    """Forbid this process to write files, to start processes (except as root) and to dump core."""
    if sys.platform == "win32":
        return
    import resource

    for name in ("CORE", "FSIZE", "NPROC"):
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (0, 0))
