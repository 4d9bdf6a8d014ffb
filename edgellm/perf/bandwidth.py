"""What this machine gives: bytes read per second, weights multiplied per second, int8 products per second.

Decoding reads all weights for every token and multiplies each once: it is bound by the bandwidth of the memory, or by
arithmetic where vectors are short. The memory's bandwidth is measured by a prefetching vector read of memory that no
cache holds, with as many threads as the model has. Memory that other machines share gives up to twice as much for
seconds or minutes, while they rest. So the profile keeps what `sustained_bandwidth` finds in four seconds of reads, or
the median of all reads of `edgellm bench`, whose rounds last longer; `bench` compares decoding with the reads just
before and after it. Arithmetic is measured with the matmul that decoding itself uses, on weights that stay in the
caches.
"""

import mmap
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.op_writer import matmul_kernel
from edgellm.errors import EdgeLLMError
from edgellm.fmt import size as in_words
from edgellm.perf.cpu_share import CPUShare
from edgellm.perf.machine_profile import MEMORY
from edgellm.perf.microbenchmark import Microbenchmark
from edgellm.system.machine import available_memory
from kquants.jit import Progress

_READ_S = 4.0
"""Seconds for which the memory is read. Two seconds at twice the speed are two thirds of the reads, which is less than
the three quarters that `sustained_bandwidth` asks for."""

_MIN_READS = 5
"""Reads of a slow memory: fewer have no lower quartile."""

_MATMUL_S = 0.2
"""Seconds for which weights of one format are multiplied, in runs of up to a millisecond."""

_TOUCHED_BYTES = 64 << 20
"""Bytes that are requested from the system in one step."""


@contextmanager
def memory_benchmark(
    threads: int, *, size: int = 1 << 30, progress: Progress | None = None
) -> Iterator[Callable[[], float]]:
    """Yields a function that reads `size` bytes with `threads` threads and returns bytes per second.

    The memory stays allocated until the end, beside what else is measured: a virtual machine may pass freed memory on,
    and decoding was 6 % slower in the seconds of that. `progress` is called while kernels are compiled. Raises
    EdgeLLMError where that much memory or that many threads are not available: a smaller span might measure a cache.
    """
    memory = _allocate(size)
    address = memory.ctypes.data  # the function must not keep the memory alive
    with Microbenchmark(threads, ["read_sum"], progress) as benchmark:
        yield lambda: benchmark.read_bandwidth(address, size)


@contextmanager
def matmul_benchmark(
    threads: int, formats: Collection[str], *, progress: Progress | None = None
) -> Iterator[Callable[[], dict[str, float]]]:
    """Yields a function that multiplies weights of each format by one row and returns their bytes per second.

    The weights stay in the caches. Other programs can only make it slower, for moments, so the best of many short runs
    counts. `progress` is called while kernels are compiled. Raises EdgeLLMError where kernels, threads or memory are
    not available.
    """
    with Microbenchmark(threads, [matmul_kernel(name) for name in formats], progress) as benchmark:
        runs = {name: benchmark.matmul(name) for name in formats}
        yield lambda: {name: _best(run) for name, run in runs.items()}


def _best(run: Callable[[], float]) -> float:
    end, best = perf_counter() + _MATMUL_S, run()
    while perf_counter() < end:
        best = max(best, run())
    return best


@dataclass(frozen=True)
class Measurement:
    """Speeds by name (see `edgellm.perf.machine_profile`); `undisturbed` unless another program took the CPU."""

    speeds: dict[str, float]
    undisturbed: bool


def measure(threads: int, names: Collection[str], progress: Progress | None = None) -> Measurement:
    """Measure the speeds of these names; that of the memory takes about four seconds.

    Raises EdgeLLMError as `memory_benchmark` and `matmul_benchmark` do, before anything is timed.
    """
    formats = [name for name in names if name != MEMORY]
    with ExitStack() as stack:
        read = stack.enter_context(memory_benchmark(threads, progress=progress)) if MEMORY in names else None
        multiply = stack.enter_context(matmul_benchmark(threads, formats, progress=progress)) if formats else None
        share = CPUShare(threads)
        with share.recording():
            speeds = (multiply() if multiply else {}) | ({MEMORY: _sustained_reads(read)} if read else {})
        return Measurement(speeds, share.undisturbed)


def _sustained_reads(read: Callable[[], float]) -> float:
    end, found = perf_counter() + _READ_S, [read() for _ in range(_MIN_READS)]
    while perf_counter() < end:
        found.append(read())
    return sustained_bandwidth(found)


def sustained_bandwidth(reads: list[float]) -> float:
    """The speed that three of four reads reach: short phases of more speed, or a few slow reads, do not change it."""
    return sorted(reads)[(len(reads) - 1) // 4]


def int8_peak(threads: int) -> float:
    """The best of five measurements of int8 multiply-adds per second of `threads` threads together."""
    with Microbenchmark(threads, ["int8_peak"]) as benchmark:
        return max(benchmark.int8_peak() for _ in range(5))  # at first, threads may share a core for some milliseconds


def _allocate(size: int) -> NDArray[np.uint8]:
    """`size` bytes of resident memory that begin at a page. Raises EdgeLLMError."""
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
    for first in range(0, len(memory), _TOUCHED_BYTES):  # in one step it may take seconds, in which Ctrl-C would wait
        memory[first : first + _TOUCHED_BYTES : mmap.PAGESIZE] = 1  # unwritten pages are all the same page
    start = -memory.ctypes.data % mmap.PAGESIZE
    return memory[start : start + size]
