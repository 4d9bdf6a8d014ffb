"""Threads that run the kernels of `kquants.bandwidth` alone, in the way in which a model's ops are run."""

from time import perf_counter

import numpy as np

from edgellm.engine.threads import TEAM_KERNELS, ThreadPool
from edgellm.errors import EdgeLLMError
from edgellm.home import cache_folder
from kquants import jit
from kquants.layout import OP_WORDS, PEAK_PRODUCTS

PIECE = 4 << 20
"""Bytes that a thread reads at once: with 1 MiB a tenth of the time went into beginning anew."""

_PEAK_UNITS, _PEAK_ROUNDS = 512, 1 << 12
_ROWS = 1024
"""Rows that the batch claims to have, so that threads take one unit at a time and end together."""


class Yardstick:
    """`threads` threads of their own, for one of the kernels. Use it as a context manager.

    `progress` is called while kernels are compiled. Raises EdgeLLMError where kernels or threads cannot be had.
    """

    def __init__(self, threads: int, kernel: str, progress: jit.Progress | None = None) -> None:
        try:
            kernels = jit.load([*TEAM_KERNELS, kernel], cache_folder(), progress)
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be made: {error}") from None
        self._kernel = kernels[kernel]
        self._pool = ThreadPool(threads, kernels, 1, 64)
        self._batch = np.array([_ROWS] + [0] * 7, np.int64)

    def __enter__(self) -> "Yardstick":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def read(self, address: int, nbytes: int) -> float:
        """With `read_sum`: bytes a second at which memory is read once, a last part of less than PIECE left out."""
        pieces = nbytes // PIECE
        sums = np.zeros(pieces, np.int32)
        return pieces * PIECE / self._seconds(pieces, address, PIECE, sums.ctypes.data)

    def multiply(self) -> float:
        """With `int8_peak`: products of two int8 a second, over some hundredths of a second."""
        factors, sums = np.ones((PEAK_PRODUCTS + 2) * 64, np.int8), np.zeros(_PEAK_UNITS, np.int32)
        aligned = (factors.ctypes.data + 63) & ~63
        products = _PEAK_UNITS * _PEAK_ROUNDS * PEAK_PRODUCTS * 64
        return products / self._seconds(_PEAK_UNITS, _PEAK_ROUNDS, aligned, sums.ctypes.data)

    def _seconds(self, units: int, *arguments: int) -> float:
        """How long an op of so many units takes."""
        words = [self._kernel, units, 0, 0, 1, *arguments]
        op = np.array(words + [0] * (OP_WORDS - len(words)), np.int64)
        started = perf_counter()
        self._pool.run(op.ctypes.data, 1, self._batch.ctypes.data)
        return perf_counter() - started
