"""Whether another program took the CPU from a measurement."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

from edgellm.system.machine import usable_cpus

_UNDISTURBED = 0.9
"""Share of their time for which threads compute when no other program does; a busy program leaves them less."""


class CPUShare:
    """The share of the CPU that this process gets while its threads compute without a pause.

    Another program that wants the CPU leaves less. A program with a CPU of its own is not noticed, though it may read
    the same memory, or share a core.
    """

    def __init__(self, threads: int) -> None:
        self._cpus = min(threads, usable_cpus())  # a quota may give the process fewer
        self._wanted_s = self._used_s = 0.0  # of all threads together

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Add the CPU time that this process uses meanwhile; nothing if that ends with an exception."""
        began, used = perf_counter(), process_time()
        yield
        self._wanted_s += (perf_counter() - began) * self._cpus
        self._used_s += process_time() - used

    @property
    def undisturbed(self) -> bool:
        """Whether the threads had nearly all of their time."""
        return self._used_s >= _UNDISTURBED * self._wanted_s
