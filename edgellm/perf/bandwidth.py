"""What this machine gives: bytes read, weights multiplied and int8 products a second.

Decoding reads all weights for every token, and multiplies them once: its speed is bound by the bandwidth of the memory,
or by arithmetic where vectors are short. The yardstick of the first is a prefetching vector read over memory that no
cache holds, by as many threads as the model has. Memory that others share gives up to twice as much for seconds or
minutes, while they rest. So what is kept, and tells what to expect, is `sustained` over four seconds, or the median of
all reads of `edgellm bench`, whose rounds last longer; what it compares decoding with are the reads just around that.
The yardstick of the second is the product that decoding itself uses, of weights that stay in the caches.
"""

import mmap
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.op_writer import matmul_kernel
from edgellm.errors import EdgeLLMError
from edgellm.fmt import size as in_words
from edgellm.perf.machine_profile import MEMORY
from edgellm.perf.microbenchmark import Yardstick
from edgellm.system.machine import available_memory, usable_cpus
from kquants.jit import Progress

_MEASURING_S = 4.0
"""How long the memory is read. Two seconds with twice the speed are two thirds of the reads: not three quarters."""

_LEAST_READS = 5
"""So many of a slow memory, too: less than that have no lower quarter."""

_MULTIPLYING_S = 0.2
"""How long weights of a format are multiplied, in times of up to a millisecond."""

_UNDISTURBED = 0.9
"""The share of their time for which threads compute where no other program does: a busy one leaves them less."""

_TOUCHED = 64 << 20
"""Bytes that are asked of the system at once."""


@contextmanager
def memory_reads(
    threads: int, *, size: int = 1 << 30, progress: Progress | None = None
) -> Iterator[Callable[[], float]]:
    """What reads `size` bytes with `threads` threads, each time it is called, and tells the bytes a second.

    The memory is held until the end, beside what else is measured: what is given back, a virtual machine may hand on
    in the next seconds, in which decoding was 6 % slower. `progress` is called while kernels are compiled. Raises
    EdgeLLMError where so many bytes or threads cannot be had: a smaller span might measure a cache.
    """
    memory = _memory(size)
    address = memory.ctypes.data  # what is given out must not hold the memory
    with Yardstick(threads, ["read_sum"], progress) as yardstick:
        yield lambda: yardstick.read(address, size)


@contextmanager
def weight_products(
    threads: int, formats: Collection[str], *, progress: Progress | None = None
) -> Iterator[Callable[[], dict[str, float]]]:
    """What multiplies weights of each format by one row, each time it is called, and tells the bytes of them a second.

    Weights stay in the caches. Others can only make that slower, for moments, so the best of many short times counts.
    `progress` is called while kernels are compiled. Raises EdgeLLMError where kernels, threads or memory cannot be had.
    """
    with Yardstick(threads, [matmul_kernel(name) for name in formats], progress) as yardstick:
        products = {name: yardstick.product(name) for name in formats}
        yield lambda: {name: _best(multiply) for name, multiply in products.items()}


def _best(speed: Callable[[], float]) -> float:
    end, best = perf_counter() + _MULTIPLYING_S, speed()
    while perf_counter() < end:
        best = max(best, speed())
    return best


class CPUShare:
    """How much of the CPU threads get that compute all the time, as those do that measure this machine.

    Another program that wants the CPU leaves them less. One that has a CPU of its own is not seen, though it may read
    the same memory, or share a core.
    """

    def __init__(self, threads: int) -> None:
        self._cpus = min(threads, usable_cpus())  # by its quota, a process may not have more
        self._wanted_s = self._used_s = 0.0  # of all threads together

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count what this process uses of the CPU in the meantime; nothing if that ends with an exception."""
        began, used = perf_counter(), process_time()
        yield
        self._wanted_s += (perf_counter() - began) * self._cpus
        self._used_s += process_time() - used

    @property
    def undisturbed(self) -> bool:
        """Whether they had nearly all of it."""
        return self._used_s >= _UNDISTURBED * self._wanted_s


@dataclass(frozen=True)
class Measured:
    """Speeds by name, see `edgellm.perf.machine_profile`; `undisturbed` unless another program took the CPU from what measured."""

    speeds: dict[str, float]
    undisturbed: bool


def measure(threads: int, wanted: Collection[str], progress: Progress | None = None) -> Measured:
    """Speeds of these names, that of the memory in about four seconds.

    Raises EdgeLLMError as `memory_reads` and `weight_products` do, before anything is timed.
    """
    formats = [name for name in wanted if name != MEMORY]
    with ExitStack() as stack:
        read = stack.enter_context(memory_reads(threads, progress=progress)) if MEMORY in wanted else None
        multiply = stack.enter_context(weight_products(threads, formats, progress=progress)) if formats else None
        share = CPUShare(threads)
        with share.watched():
            speeds = (multiply() if multiply else {}) | ({MEMORY: _sustained_reads(read)} if read else {})
        return Measured(speeds, share.undisturbed)


def _sustained_reads(read: Callable[[], float]) -> float:
    end, found = perf_counter() + _MEASURING_S, [read() for _ in range(_LEAST_READS)]
    while perf_counter() < end:
        found.append(read())
    return sustained(found)


def sustained(speeds: list[float]) -> float:
    """What three of four reads reach: moments with more do not change it, nor a few with less."""
    return sorted(speeds)[(len(speeds) - 1) // 4]


def int8_peak(threads: int) -> float:
    """Products of two int8, each added to a sum, that `threads` threads make in a second: the best of five."""
    with Yardstick(threads, ["int8_peak"]) as yardstick:
        return max(yardstick.int8_peak() for _ in range(5))  # at first, threads may share a core for some milliseconds


def _memory(size: int) -> NDArray[np.uint8]:
    """So many bytes of memory of our own, from the start of a page on."""
    free = available_memory()
    if free < size:
        raise EdgeLLMError(
            f"measuring the memory's bandwidth takes {in_words(size)} of it, and {in_words(free)} are free; "
            "close other programs"
        )
    try:
        memory = np.empty(size + mmap.PAGESIZE, np.uint8)  # in huge pages on Linux: NumPy asks for them
    except MemoryError:  # a limit of the process
        raise EdgeLLMError(
            f"measuring the memory's bandwidth takes {in_words(size)} of it, which this process may not have"
        ) from None
    for first in range(0, len(memory), _TOUCHED):  # all at once may take seconds, in which Ctrl-C would wait
        memory[first : first + _TOUCHED : mmap.PAGESIZE] = 1  # before, all of it is one and the same page
    start = -memory.ctypes.data % mmap.PAGESIZE
    return memory[start : start + size]
