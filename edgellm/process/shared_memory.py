"""Memory that a process shares with its child, so that arrays need not go through the pipe.

A killed process leaves nothing behind, as the memory has no name in a file system: on Linux it is an anonymous file, on
other POSIX systems a deleted one, whose descriptor the child inherits. On Windows it is a mapping of the page file,
whose name is gone when its last handle is closed.
"""

import mmap
import os
import secrets
import sys
import tempfile
import weakref
from io import FileIO
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


class SharedMemory:
    """Bytes that grow on demand. `argument` tells the child, on its command line, which memory it is."""

    def __init__(self, argument: str, file: IO[bytes] | None) -> None:
        self.argument, self._file = argument, file
        self._map: mmap.mmap | None = None
        self.close = weakref.finalize(self, file.close) if file else lambda: None

    @classmethod
    def create(cls) -> "SharedMemory":
        """New memory, in the process that starts the child. Raises OSError."""
        if sys.platform == "win32":
            return cls(f"edgellm-{secrets.token_hex(16)}", None)
        file = _anonymous_file()
        return cls(str(file.fileno()), file)

    @classmethod
    def attach(cls, argument: str) -> "SharedMemory":
        """The memory of the parent, in the child."""
        return cls(argument, None if sys.platform == "win32" else FileIO(int(argument), "r+"))

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the child must inherit."""
        return (self._file.fileno(),) if self._file else ()

    def array(self, nbytes: int) -> NDArray[np.uint8]:
        """The first bytes. Both sides see the same ones, whichever asks first. Raises OSError."""
        if self._map is None or len(self._map) < nbytes:
            self._map = self._mapped(nbytes)
        return np.frombuffer(self._map, np.uint8, nbytes)

    def _mapped(self, nbytes: int) -> mmap.mmap:
        if self._file is None:  # a mapping of Windows keeps its size: one for each
            return mmap.mmap(-1, nbytes, **_tag(f"{self.argument}-{nbytes}"))
        if os.fstat(self._file.fileno()).st_size < nbytes:
            os.ftruncate(self._file.fileno(), nbytes)
        return mmap.mmap(self._file.fileno(), nbytes)


def _tag(name: str) -> dict[str, Any]:
    return {"tagname": name}


def _anonymous_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return FileIO(os.memfd_create("edgellm"), "r+")
    return tempfile.TemporaryFile(buffering=0)
