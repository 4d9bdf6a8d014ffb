"""Reading a header step by step, each step checked against the end of the file."""

import struct
from array import array
from pathlib import Path
from typing import NoReturn

from edgellm.errors import ModelFileError
from edgellm.fmt import printable

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class HeaderReader:
    """A position in the bytes of one file.

    `doing` says what is being read, for messages; `nested` counts the arrays inside arrays so far.
    """

    __slots__ = ("at", "buffer", "doing", "nested", "path")

    def __init__(self, buffer: memoryview, path: Path) -> None:
        self.buffer = buffer
        self.path = path
        self.at = self.nested = 0
        self.doing = "its header"

    def fail(self, problem: str, advice: str = "download the file again") -> NoReturn:
        """Raise ModelFileError: the problem, what was being read, at which byte, and what to do."""
        name = printable(str(self.path), 400)
        raise ModelFileError(f"{name}: {problem} ({self.doing}, byte {self.at}); {advice}")

    def skip(self, n: int) -> int:
        """Pass over `n` bytes, which must be there; the offset of the first."""
        start = self.at
        if n > len(self.buffer) - start:
            self.fail(f"is cut off or damaged: the file ends inside {n} bytes of its header")
        self.at = start + n
        return start

    def unpack(self, layout: struct.Struct) -> int | float:
        """One number of the given little-endian layout."""
        value: int | float = layout.unpack_from(self.buffer, self.skip(layout.size))[0]
        return value

    def u32(self) -> int:
        """One 32-bit unsigned integer."""
        return int(self.unpack(_U32))

    def u64(self) -> int:
        """One 64-bit unsigned integer."""
        return int(self.unpack(_U64))

    def count(self, least: int, what: str, limit: int = 1 << 63) -> int:
        """A 64-bit count of things of at least `least` bytes each; the file must have room for them."""
        n = self.u64()
        if n > min(limit, (len(self.buffer) - self.at) // least):
            self.at -= 8
            self.fail(f"is cut off or damaged: it claims {n} {what}, more than it can hold")
        return n

    def string(self) -> bytes:
        """One string: a 64-bit length, then its bytes."""
        n = self.count(1, "bytes of text")
        start = self.skip(n)
        return bytes(self.buffer[start : start + n])

    def name(self) -> str:
        """One string that must be a name: not empty, at most 65535 bytes, UTF-8."""
        raw = self.string()
        try:
            if 0 < len(raw) < 1 << 16:
                return raw.decode()
        except UnicodeDecodeError:
            pass
        return self.fail("is damaged: a name is empty, over-long or not UTF-8")

    def string_starts(self, n: int) -> "array[int]":
        """Pass over `n` strings; their n + 1 boundaries as file offsets.

        The one loop of the reader that runs per token, so it is bare: struct itself refuses an offset
        behind the end of the file, at the latest one string after a bad length.
        """
        starts, at = array("Q"), self.at
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
            self.at = starts[-1]
            self.fail(f"is cut off or damaged: string {len(starts) - 1} of {n} does not fit into the file")
        self.at = at
        return starts
