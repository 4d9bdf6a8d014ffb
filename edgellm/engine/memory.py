"""Memory for kernels, in huge pages where Linux has them, which save the CPU address look-ups."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

HUGE = 2 << 20
"""Bytes of a huge page of x86, and of most Arm systems."""

_NUMPY_HUGE = 4 << 20
"""Bytes from which on NumPy asks Linux for huge pages; memory that is not touched costs nothing."""

LINE = 64
"""Bytes of a cache line, and of the widest vector."""


class AddressedArray(NamedTuple):
    """An array and its address; `array.ctypes.data` is slow.

    One value holds both, so that no interrupt can leave the address of an array that was freed.
    """

    array: NDArray[Any]
    address: int

    @classmethod
    def of(cls, array: NDArray[Any]) -> "AddressedArray":
        """An array and its address."""
        return cls(array, int(array.ctypes.data))


def aligned(rows: int, row_bytes: int) -> NDArray[np.uint8]:
    """Zeros [rows, row_bytes] that begin at a cache line, or at a huge page if there are many. Raises MemoryError."""
    n = rows * row_bytes
    if n >= HUGE // 2:
        return huge(n).reshape(rows, row_bytes)
    room = np.zeros(n + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + n].reshape(rows, row_bytes)


def huge(n: int) -> NDArray[np.uint8]:
    """`n` zero bytes that begin at a huge page. Raises MemoryError."""
    memory = np.zeros(max(n + HUGE, _NUMPY_HUGE), np.uint8)
    start = -memory.ctypes.data % HUGE
    return memory[start : start + n]
