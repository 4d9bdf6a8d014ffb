"""Which bytes of a mapped file are in memory, and what the system is told about those that are not.

The system reads a page of a map from the disk when it is first used, and evicts it when memory is short: mincore(2) and
madvise(2) of the Linux manual. macOS has both; on other systems nothing is known, and advice does nothing.
"""

import ctypes
import mmap
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.gguf.tensors import Tensor

_STEP = 1 << 30
"""Bytes that one call of mincore asks about: its answer takes a byte for each page."""

_MADV_RANDOM, _MADV_NOHUGEPAGE = 1, 15


def resident_bytes(tensors: Iterable[Tensor]) -> int | None:
    """How many bytes of the tensors are in memory, to whole pages; None where the system does not tell."""
    found = [_resident(tensor.data) for tensor in tensors]
    return None if None in found else sum(n for n in found if n is not None)


def read_pages_alone(tensors: Iterable[Tensor]) -> None:
    """Have a page of these tensors read alone when it is used, not with megabytes of its neighbours.

    Code that reads many pages asks the system for them first, as `kquants.experts.read_ahead` does.
    """
    if sys.platform != "linux":
        return
    for tensor in tensors:
        start, nbytes = _pages_of(tensor.data)
        for advice in (_MADV_NOHUGEPAGE, _MADV_RANDOM):
            _libc().madvise(start, nbytes, advice)


def advise_function() -> int:
    """The address of madvise, for kernels; 0 where the system has none."""
    if sys.platform == "win32":
        return 0
    return ctypes.cast(_libc().madvise, ctypes.c_void_p).value or 0


def _resident(data: NDArray[np.uint8]) -> int | None:
    """Bytes of the pages of an array that are in memory, up to its size; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    start, nbytes = _pages_of(data)
    pages = 0
    for first in range(start, start + nbytes, _STEP):
        size = min(_STEP, start + nbytes - first)
        states = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        if _libc().mincore(first, size, states.ctypes.data):
            return None
        pages += int(np.count_nonzero(states & 1))
    return min(pages * mmap.PAGESIZE, data.size)


def _pages_of(data: NDArray[np.uint8]) -> tuple[int, int]:
    """Address and bytes of the pages that an array lies in."""
    first = int(data.ctypes.data)
    start = first & -mmap.PAGESIZE
    return start, first + data.size - start


@cache
def _libc() -> Any:
    """The system's functions, which take addresses and sizes of 64 bits."""
    libc = ctypes.CDLL(None)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
