"""llama.cpp's older format of importance matrices (.dat), which `edgellm.gguf.imatrix` describes."""

import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from edgellm.errors import ModelFileError
from edgellm.fmt import shown_path

_I32 = struct.Struct("<i")
_MAX_ENTRIES, _MAX_NAME, _MAX_NUMBER = 1 << 16, 1 << 10, 1 << 31


class OlderEntry(NamedTuple):
    """The means of a tensor times `calls`, float32 [values], as they are stored."""

    calls: int
    sums: NDArray[np.float32]


class OlderImatrix(NamedTuple):
    """The entries by the names of tensors; `chunks` is None and `dataset` empty in files that do not say them."""

    entries: dict[str, OlderEntry]
    chunks: int | None
    dataset: str


def read_older_imatrix(path: Path, advice: str) -> OlderImatrix:
    """Read a file. Raises ModelFileError, which ends with `advice`, for one that is cut off, damaged or unreadable."""
    try:
        with path.open("rb") as file:
            return _read(_Reader(path, file, advice))
    except OSError as error:
        raise ModelFileError(f"{shown_path(path)}: cannot be read ({error.strerror}); {advice}") from None


def _read(reader: "_Reader") -> OlderImatrix:
    entries: dict[str, OlderEntry] = {}
    for _ in range(reader.number(_MAX_ENTRIES)):
        name, calls, values = reader.text(), reader.number(_MAX_NUMBER), reader.number(_MAX_NUMBER)
        if name in entries or not values:
            reader.fail()
        entries[name] = OlderEntry(calls, reader.floats(values))
    chunks = reader.number(_MAX_NUMBER) if reader.left else None
    return OlderImatrix(entries, chunks, reader.text() if reader.left else "")


class _Reader:
    """Reads a file from its beginning; `left` is the number of bytes behind what was read."""

    def __init__(self, path: Path, file: BinaryIO, advice: str) -> None:
        self._path, self._file, self._advice = path, file, advice
        self.left = os.fstat(file.fileno()).st_size

    def fail(self) -> NoReturn:
        """Raise ModelFileError."""
        at = f"is cut off or damaged at byte {self._file.tell()}"
        raise ModelFileError(f"{shown_path(self._path)}: {at}; {self._advice}")

    def number(self, limit: int) -> int:
        """An i32 from 0 to below `limit`."""
        (n,) = _I32.unpack(self._take(4))
        if not 0 <= n < limit:
            self.fail()
        return int(n)

    def text(self) -> str:
        """A length and as many bytes."""
        return self._take(self.number(_MAX_NAME)).decode(errors="replace")

    def floats(self, n: int) -> NDArray[np.float32]:
        """`n` float32."""
        return np.frombuffer(self._take(4 * n), "<f4").astype(np.float32)

    def _take(self, n: int) -> bytes:
        data = self._file.read(n) if n <= self.left else b""
        if len(data) < n:
            self.fail()
        self.left -= n
        return data
