"""Memory-mapped files that other programs may cut short."""

import mmap
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NoReturn, Self

import numpy as np

from edgellm.errors import ModelFileError
from edgellm.fmt import shown_path, size
from edgellm.gguf import sigbus


class MappedFile(mmap.mmap):
    """A read-only memory map of an open file of at least one byte. Raises OSError and ValueError, as `mmap.mmap` does.

    `check` raises after the file was cut short or its disk failed. Lost pages read as zeros after `sigbus.install`;
    without it, reading one ends the process.
    """

    def __new__(cls, path: Path, file: BinaryIO) -> Self:
        """Map `file`; `path` is for messages."""
        return super().__new__(cls, file.fileno(), 0, access=mmap.ACCESS_READ)

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._nbytes = path, len(self)
        address = np.frombuffer(self, np.uint8).ctypes.data
        self._slot = sigbus.register_map(int(address), self._nbytes)

    def check(self) -> None:
        """Raise ModelFileError if a part of the file is lost: zeros may have been read in its place."""
        try:  # called for each token; contextlib.suppress would take 0.3 us more
            left = self.size()
        except OSError:  # a file server that does not answer now
            left = self._nbytes
        if left < self._nbytes:
            self._fail(
                f"was cut short while it was in use: {size(left)} of {size(self._nbytes)} are left; get it again"
            )
        if self._slot is not None and sigbus.fault_count(self._slot):
            self._fail(
                "could not be read while it was in use: its disk failed, or another program wrote to it; check it"
            )

    def _fail(self, problem: str) -> NoReturn:
        raise ModelFileError(f"{shown_path(self._path)}: {problem}, then reopen it")

    def close(self) -> None:
        """Unmap the file. Raises BufferError while views exist."""
        super().close()
        self._unwatch()

    def _unwatch(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            sigbus.unregister_map(slot)

    def __del__(self) -> None:  # runs before Python unmaps the file
        with suppress(AttributeError):  # the constructor may have failed
            self._unwatch()
