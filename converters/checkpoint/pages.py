"""Bytes of mapped files that do not stay in memory: what makes any checkpoint convertible in a few hundred MB."""

import ctypes
import errno
import mmap
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.shard import Shard

# Of madvise(2), Linux 5.14; Python has no name for it.
_POPULATE_READ = 22


class Pages:
    """Hands out bytes of maps as views, and lets go of the pages of those handed out longest ago.

    A page that was read counts as memory of this process (RSS) until it is let go, although the system could take it
    back at any time. Letting go is harmless even while a view is in use: its pages come back from the system's cache
    of the file when they are touched. So nobody has to say when a view is done with, and any thread may take any
    bytes. `kept` is how many bytes stay.
    """

    def __init__(self, kept: int = 1 << 27) -> None:
        self._kept = kept
        self._taken: deque[tuple[mmap.mmap, int, int]] = deque()
        self._total = 0
        self._lock = Lock()

    def take(self, shard: Shard, offset: int, nbytes: int) -> NDArray[np.uint8]:
        """A read-only view of bytes offset … offset + nbytes - 1 of a file, which must be inside of it.

        Raises ModelFileError where the file cannot be read (on Linux; elsewhere the process dies in using the view).
        """
        view = shard.data[offset : offset + nbytes]
        if not _readable(view):
            fail(shard.path, f"cannot be read near byte {offset}; check its disk, or download it again")
        with self._lock:
            self._taken.append((shard.map, offset, nbytes))
            self._total += nbytes
            while self._total > self._kept and len(self._taken) > 1:
                self._let_go(*self._taken.popleft())
        return view

    def _let_go(self, mapped: mmap.mmap, offset: int, nbytes: int) -> None:
        self._total -= nbytes
        start = offset - offset % mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED, start, offset + nbytes - start)


def _readable(view: NDArray[np.uint8]) -> bool:
    """Read the pages of a view now, as an error of the disk is a value here and a signal that kills later."""
    start = view.ctypes.data - view.ctypes.data % mmap.PAGESIZE
    status = _madvise()(start, view.ctypes.data + view.size - start, _POPULATE_READ)
    return status == 0 or ctypes.get_errno() != errno.EFAULT  # others: a kernel that does not know the advice


@cache
def _madvise() -> Callable[[int, int, int], int]:
    """The function of the C library: unlike the method of mmap it lets other Python threads run meanwhile."""
    if sys.platform != "linux":
        return lambda _address, _nbytes, _advice: 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    found: Callable[[int, int, int], int] = madvise
    return found
