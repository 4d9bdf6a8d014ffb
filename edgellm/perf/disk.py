"""Models that are larger than the free memory: what the disk gives, and the speed to expect of it."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from edgellm.perf.roofline import Roofline

_BLOCK = 2 << 20
"""Bytes of one read, about those of a matrix of an expert; a multiple of the blocks of all disks."""

_BLOCKS, _READERS, _MOST_S = 48, 4, 1.0
"""Reads of a measurement, how many are under way at once, and the seconds after which no further one begins."""

_F_NOCACHE = 48
"""The fcntl of macOS that has reads pass by the memory."""


@dataclass(frozen=True)
class DiskForecast:
    """What decoding one token reads from the disk, in bytes, and the bytes per second that the disk gives.

    `bandwidth` is None if the disk could not be measured.
    """

    bytes_per_token: float
    bandwidth: float | None

    @property
    def tps(self) -> float | None:
        """The tokens per second to expect."""
        return self.bandwidth / self.bytes_per_token if self.bandwidth else None


def forecast(path: Path, roofline: Roofline, free: int) -> DiskForecast | None:
    """The forecast for the model of a file with `free` bytes of memory; None if all weights that it reads fit."""
    nbytes = bytes_from_disk(roofline, free)
    return DiskForecast(nbytes, measure_bandwidth(path)) if nbytes else None


def bytes_from_disk(roofline: Roofline, free: int) -> float:
    """Bytes that a token reads from the disk with `free` bytes of memory; 0 if all weights that it may read fit.

    Weights that all tokens use stay in memory if they fit, beside as many experts as fit; tokens choose all experts
    equally often. Weights that are read in the same order for each token, and do not fit, are evicted before they are
    read again: all come from the disk.
    """
    experts = sum(roofline.expert_bytes.values())
    chosen = sum(nbytes * used / count for (count, used), nbytes in roofline.expert_bytes.items())
    others = roofline.weight_bytes - chosen
    if others + experts <= free:
        return 0.0
    if others >= free:
        return others + chosen
    return chosen * (1 - (free - others) / experts)


def measure_bandwidth(path: Path) -> float | None:
    """Bytes per second that the disk of a file gives in reads of 2 MiB, several at once; None if it cannot be read.

    The reads pass by the memory where the system can do that, and take a second at most.
    """
    from concurrent.futures import ThreadPoolExecutor  # imported only for models that are larger than the memory

    with suppress(OSError), _uncached(path) as descriptor:
        nbytes = os.fstat(descriptor).st_size
        count = min(_BLOCKS, nbytes // _BLOCK)
        offsets = [nbytes // _BLOCK * i // count * _BLOCK for i in range(count)]
        started = perf_counter()
        with ThreadPoolExecutor(_READERS) as readers:
            read = sum(readers.map(lambda offset: _read(descriptor, offset, started + _MOST_S), offsets))
        return read / (perf_counter() - started) if read else None
    return None


@contextmanager
def _uncached(path: Path) -> Iterator[int]:
    """A descriptor of a file, whose reads pass by the memory if possible. Raises OSError."""
    flags = os.O_RDONLY
    try:
        descriptor = os.open(path, flags | getattr(os, "O_DIRECT", 0))
    except OSError:  # a file system without direct reads
        descriptor = os.open(path, flags)
    try:
        if hasattr(os, "F_NOCACHE") or not hasattr(os, "O_DIRECT"):
            _pass_by_memory(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _pass_by_memory(descriptor: int) -> None:
    with suppress(ImportError, OSError):  # Windows has no fcntl
        import fcntl

        fcntl.fcntl(descriptor, _F_NOCACHE, 1)


def _read(descriptor: int, offset: int, deadline: float) -> int:
    """Read a block; direct reads need memory that begins at a page. Returns bytes read, 0 after the deadline."""
    if perf_counter() > deadline:
        return 0
    with mmap.mmap(-1, _BLOCK) as memory:
        return os.preadv(descriptor, [memory], offset)
