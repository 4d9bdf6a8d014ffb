"""Threads that run one kernel alone, of `kquants.microbenchmark` or a product, in the way in which a model's ops are run."""

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

PIECE = 4 << 20
"""Bytes that a thread reads at once: with 1 MiB a tenth of the time went into beginning anew."""

_PEAK_UNITS, _PEAK_ROUNDS = 512, 1 << 12

_COLUMNS, _CACHED, _TIMES = 2048, 128 << 10, 64
"""Of weights that are multiplied over and over: columns, bytes for each thread, for which most second-level caches have
room, and how many times, so that what it takes to begin and to end counts for little."""

_MANY = 1024
"""Rows that the batch claims to have for kernels that have none: threads then take one unit at a time and end together.
"""


def _no_memory(threads: int) -> EdgeLLMError:
    return EdgeLLMError(
        f"no memory to measure with {counted(threads, 'thread')}; close other programs, or choose fewer"
    )


class Yardstick:
    """`threads` threads of their own, for some kernels. Use it as a context manager.

    `progress` is called while kernels are compiled. Raises EdgeLLMError where kernels or threads cannot be had.
    """

    def __init__(self, threads: int, kernels: Sequence[str], progress: jit.Progress | None = None) -> None:
        try:
            self._kernels = jit.load([*POOL_KERNELS, *kernels], cache_folder(), progress)
            self._pool = ThreadPool(threads, self._kernels, _TIMES, matmul_scratch(_COLUMNS, "BF16"))  # the most
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be made: {error}") from None
        except MemoryError:
            raise _no_memory(threads) from None

    def __enter__(self) -> "Yardstick":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def read(self, address: int, nbytes: int) -> float:
        """With `read_sum`: bytes a second at which memory is read once, a last part of less than PIECE left out."""
        pieces = nbytes // PIECE
        sums = np.zeros(pieces, np.int32)
        return pieces * PIECE / self._seconds("read_sum", pieces, ReadSumOp(address, PIECE, sums.ctypes.data))

    def int8_peak(self) -> float:
        """With `int8_peak`: products of two int8 a second, over some hundredths of a second."""
        factors, sums = aligned(1, (PEAK_PRODUCTS + 2) * 64), np.zeros(_PEAK_UNITS, np.int32)
        factors.fill(1)
        products = _PEAK_UNITS * _PEAK_ROUNDS * PEAK_PRODUCTS * 64
        given = Int8PeakOp(_PEAK_ROUNDS, factors.ctypes.data, sums.ctypes.data)
        return products / self._seconds("int8_peak", _PEAK_UNITS, given)

    def product(self, name: str) -> Callable[[], float]:
        """With the product of a format: what multiplies its weights by one row of x, each time it is called.

        It tells the bytes of weights a second; they stay in the caches. Raises EdgeLLMError where memory is short.
        """
        row_bytes = NAMED_TYPES[name].row_bytes(_COLUMNS)
        tiles = self._pool.count * max(1, _CACHED // (TILE_ROWS * row_bytes))
        sizes = (tiles * TILE_ROWS, row_bytes), (1, 4 * _COLUMNS), (1, 4 * tiles * TILE_ROWS)
        try:
            w, x, y = (aligned(*size) for size in sizes)
        except MemoryError:
            raise _no_memory(self._pool.count) from None
        # Scales of a usual size, a float16 of 1.06 or 2^-68: denormal ones take longer. And pages that were written, as
        # before they are all one and the same.
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
            return _TIMES * w.nbytes / self._seconds(matmul_kernel(name), tiles, given, rows=1, times=_TIMES)

        return multiply

    def _seconds(self, kernel: str, units: int, arguments: Arguments, rows: int = _MANY, times: int = 1) -> float:
        """How long an op of so many units takes, or how long it takes to do it so many times.

        Threads do not meet between them: of ops as short as products with weights in the caches that would be a tenth.
        """
        head = OpHeader(self._kernels[kernel], units, units_per_row=0, outputs=0, barrier=0)
        ops = np.array([record_of_op(head, arguments)] * times, np.int64)
        batch = np.array(BatchRecord(rows), np.int64)
        started = perf_counter()
        self._pool.run(ops.ctypes.data, times, batch.ctypes.data)
        return perf_counter() - started
