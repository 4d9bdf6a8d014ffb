"""Runs one kernel alone, of `kquants.microbenchmark` or a matmul, with threads and op records as a model does."""

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from edgellm.engine.memory import aligned
from edgellm.engine.op_writer import matmul_kernel
from edgellm.engine.threadpool import POOL_KERNELS, ThreadPool
from edgellm.errors import EdgeLLMError
from edgellm.fmt import counted
from edgellm.system.folders import cache_folder
from kquants import jit
from kquants.ggml import NAMED_TYPES
from kquants.layout import PEAK_PRODUCTS, TILE_ROWS, matmul_scratch
from kquants.records import Arguments, BatchRecord, Int8PeakOp, MatmulOp, OpHeader, ReadSumOp, record_of_op

READ_CHUNK = 1 << 20
"""Bytes of one unit of a read, of which threads take four at once. (One at once: a tenth of the time to start them.)"""

_PEAK_UNITS, _PEAK_ROUNDS = 512, 1 << 12

_COLUMNS, _CACHED_BYTES, _REPEATS = 2048, 128 << 10, 64
"""Of the weights of a matmul: columns; bytes per thread, which fit in most second-level caches; and the number of times
that they are multiplied in one run, so that starting and ending it counts for little."""

_MANY_ROWS = 1024
"""Rows of the batch for kernels that have none: threads then take four units at a time and finish together."""


def _no_memory(threads: int) -> EdgeLLMError:
    return EdgeLLMError(
        f"no memory to measure with {counted(threads, 'thread')}; close other programs, or choose fewer"
    )


class Microbenchmark:
    """A pool of `threads` threads for the given kernels. Use it as a context manager.

    `progress` is called while kernels are compiled. Raises EdgeLLMError if kernels or threads are not available.
    """

    def __init__(self, threads: int, kernels: Sequence[str], progress: jit.Progress | None = None) -> None:
        try:
            self._kernels = jit.load([*POOL_KERNELS, *kernels], cache_folder(), progress)
            self._pool = ThreadPool(threads, self._kernels, _REPEATS, matmul_scratch(_COLUMNS, "BF16"))  # the most
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be made: {error}") from None
        except MemoryError:
            raise _no_memory(threads) from None

    def __enter__(self) -> "Microbenchmark":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def read_bandwidth(self, address: int, nbytes: int) -> float:
        """Kernel `read_sum`: bytes per second of one read of the memory, in whole READ_CHUNKs."""
        chunks = nbytes // READ_CHUNK
        sums = np.zeros(chunks, np.int32)
        return chunks * READ_CHUNK / self._seconds("read_sum", chunks, ReadSumOp(address, READ_CHUNK, sums.ctypes.data))

    def int8_peak(self) -> float:
        """Kernel `int8_peak`: int8 multiply-adds per second, measured for some hundredths of a second."""
        factors, sums = aligned(1, (PEAK_PRODUCTS + 2) * 64), np.zeros(_PEAK_UNITS, np.int32)
        factors.fill(1)
        products = _PEAK_UNITS * _PEAK_ROUNDS * PEAK_PRODUCTS * 64
        given = Int8PeakOp(_PEAK_ROUNDS, factors.ctypes.data, sums.ctypes.data)
        return products / self._seconds("int8_peak", _PEAK_UNITS, given)

    def matmul(self, name: str) -> Callable[[], float]:
        """Matmul kernel of a format: a function that multiplies its weights by one row of x.

        The function returns bytes of weights per second; the weights stay in the caches. Raises EdgeLLMError if there
        is too little memory.
        """
        row_bytes = NAMED_TYPES[name].row_bytes(_COLUMNS)
        tiles = self._pool.count * max(1, _CACHED_BYTES // (TILE_ROWS * row_bytes))
        sizes = (tiles * TILE_ROWS, row_bytes), (1, 4 * _COLUMNS), (1, 4 * tiles * TILE_ROWS)
        try:
            w, x, y = (aligned(*size) for size in sizes)
        except MemoryError:
            raise _no_memory(self._pool.count) from None
        # The byte 60 makes ordinary scales, a float16 of 1.06 or 2^-68; denormal ones would be slower. Writing also
        # makes the pages distinct: unwritten pages are all the same page.
        w.fill(60)

        def multiply() -> float:
            given = MatmulOp(
                w=w.ctypes.data,
                rows=len(w),
                columns=_COLUMNS,
                row_bytes=row_bytes,
                x=x.ctypes.data,
                x_bytes=x.nbytes,
                y=y.ctypes.data,
                y_bytes=y.nbytes,
                accumulate=0,
            )
            return _REPEATS * w.nbytes / self._seconds(matmul_kernel(name), tiles, given, rows=1, times=_REPEATS)

        return multiply

    def _seconds(self, kernel: str, units: int, arguments: Arguments, rows: int = _MANY_ROWS, times: int = 1) -> float:
        """Seconds of `times` runs of an op with `units` units.

        There is no barrier between the runs: for a matmul with cached weights it would be a tenth of the time.
        """
        head = OpHeader(self._kernels[kernel], units, units_per_row=0, outputs=0, barrier=0)
        ops = np.array([record_of_op(head, arguments)] * times, np.int64)
        batch = np.array(BatchRecord(rows), np.int64)
        started = perf_counter()
        self._pool.run(ops.ctypes.data, times, batch.ctypes.data)
        return perf_counter() - started
