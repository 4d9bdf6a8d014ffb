"""Reads the header of a GGUF file: numbers and strings in order, each checked against the end of the file."""

import struct
from array import array
from pathlib import Path
from typing import NoReturn

from edgellm.errors import ModelFileError
from edgellm.fmt import shown_path

GGUF_VERSIONS = (2, 3)
"""The versions of the format that are read."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class HeaderReader:
    """A read position in the bytes of one file.

    `offset` is the position in bytes. `context` names what is being read, for messages. `nested` counts the arrays
    inside arrays that were read.
    """

    __slots__ = ("buffer", "context", "nested", "offset", "path")

    def __init__(self, buffer: memoryview, path: Path) -> None:
        self.buffer = buffer
        self.path = path
        self.offset = self.nested = 0
        self.context = "its header"

    def fail(self, problem: str, advice: str = "download the file again") -> NoReturn:
        """Raise ModelFileError with the file, the problem, the context, the offset and the advice."""
        name = shown_path(self.path)
        raise ModelFileError(f"{name}: {problem} ({self.context}, byte {self.offset}); {advice}")

    def skip(self, n: int) -> int:
        """Advance by `n` bytes and return the offset of the first. Raises ModelFileError if the file ends before."""
        start = self.offset
        if n > len(self.buffer) - start:
            self.fail(f"is cut off or damaged: the file ends inside {n} bytes of its header")
        self.offset = start + n
        return start

    def unpack(self, layout: struct.Struct) -> int | float:
        """Read one number of a little-endian layout."""
        value: int | float = layout.unpack_from(self.buffer, self.skip(layout.size))[0]
        return value

    def u32(self) -> int:
        """Read a 32-bit unsigned integer."""
        return int(self.unpack(_U32))

    def u64(self) -> int:
        """Read a 64-bit unsigned integer."""
        return int(self.unpack(_U64))

    def count(self, least: int, what: str, limit: int = 1 << 63) -> int:
        """Read a 64-bit count of items of at least `least` bytes each.

        Raises ModelFileError for a count above `limit`, or more items than the rest of the file has room for.
        """
        n = self.u64()
        if n > min(limit, (len(self.buffer) - self.offset) // least):
            self.offset -= 8
            self.fail(f"is cut off or damaged: it claims {n} {what}, more than it can hold")
        return n

    def string(self) -> bytes:
        """Read a string: a 64-bit length, then its bytes."""
        n = self.count(1, "bytes of text")
        start = self.skip(n)
        return bytes(self.buffer[start : start + n])

    def name(self) -> str:
        """Read a name: a string of 1 to 65535 bytes of UTF-8."""
        raw = self.string()
        try:
            if 0 < len(raw) < 1 << 16:
                return raw.decode()
        except UnicodeDecodeError:
            pass
        return self.fail("is damaged: a name is empty, over-long or not UTF-8")

    def string_starts(self, n: int) -> "array[int]":
        """Skip `n` strings and return the n + 1 file offsets where they begin and the last one ends.

        This loop runs once per token of a vocabulary, so it has no bounds check of its own: struct refuses an offset
        behind the end of the file, at the latest one string after a bad length.
        """
        starts, at = array("Q"), self.offset
        keep, length_at, buffer = starts.append, _U64.unpack_from, self.buffer
        try:
            for _ in range(n):
                keep(at)
                at += 8 + length_at(buffer, at)[0]
            keep(at)
        except (struct.error, OverflowError):
            at = len(buffer) + 1
        if at > len(buffer):
            while starts[-1] > len(buffer):
                starts.pop()
            self.offset = starts[-1]
            self.fail(f"is cut off or damaged: string {len(starts) - 1} of {n} does not fit into the file")
        self.offset = at
        return starts
