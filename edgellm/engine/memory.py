"""Memory for kernels."""

import numpy as np
from numpy.typing import NDArray

LINE = 64
"""Bytes of a cache line, and of the widest vector."""


def aligned(rows: int, row_bytes: int) -> NDArray[np.uint8]:
    """Zeros [rows, row_bytes] that begin at a cache line. Raises MemoryError."""
    room = np.zeros(rows * row_bytes + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    array: NDArray[np.uint8] = room[start : start + rows * row_bytes].reshape(rows, row_bytes)
    return array
