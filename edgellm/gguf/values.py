"""Metadata values: twelve scalar types, strings, and arrays of any of them.

Type numbers and layouts are those of the GGUF specification (ggml/docs/gguf.md).
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from edgellm.gguf.reader import HeaderReader

NO_TOKEN = (-1, 0xFFFF_FFFF)
"""How converters write "this model has no such token" as the id of one, as a signed or an unsigned number."""

BOOL, STRING, ARRAY = 7, 8, 9
_LAYOUTS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_SCALARS = {kind: struct.Struct("<" + code) for kind, code in _LAYOUTS.items()}
_DTYPES = {kind: np.dtype("<" + code) for kind, code in _LAYOUTS.items()} | {BOOL: np.dtype(np.uint8)}

# Each array inside an array becomes a Python object, many times the 12 bytes it may take in the file.
_MAX_NESTED, _MAX_DEPTH = 1 << 16, 8


class StringArray(Sequence[str]):
    """An array of strings in a mapped file, decoded when asked for.

    Tokens are not always UTF-8: text shows bad bytes as U+FFFD, `raw` gives them as they are.
    """

    __slots__ = ("_buffer", "_starts")

    def __init__(self, buffer: memoryview, starts: "array[int]") -> None:
        self._buffer = buffer
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def raw(self, index: int) -> bytes:
        """The bytes of string `index`; IndexError behind the end."""
        i = range(len(self))[index]
        return bytes(self._buffer[self._starts[i] + 8 : self._starts[i + 1]])

    def raws(self) -> Iterator[bytes]:
        """The bytes of every string in order."""
        base = self._starts[0]
        blob = bytes(self._buffer[base : self._starts[-1]])
        start = 8
        for end in self._starts[1:]:
            yield blob[start : end - base]
            start = end - base + 8

    def __iter__(self) -> Iterator[str]:
        return (raw.decode(errors="replace") for raw in self.raws())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return self.raw(index).decode(errors="replace")

    def __repr__(self) -> str:
        return f"<Strings: {len(self)}>"


Value: TypeAlias = "int | float | str | np.ndarray[Any, Any] | StringArray | tuple[Value, ...]"


def read_value(cursor: HeaderReader, kind: int) -> Value:
    """One metadata value of type number `kind`: int, float, bool, str or an array (see read_array)."""
    if kind in _SCALARS:
        return cursor.unpack(_SCALARS[kind])
    if kind == BOOL:
        return bool(_check_bools(cursor, _numbers(cursor, BOOL, 1))[0])
    if kind == STRING:
        return cursor.string().decode(errors="replace")
    if kind == ARRAY:
        return read_array(cursor, 0)
    return cursor.fail(f"is damaged: there is no metadata type {kind}")


def read_array(cursor: HeaderReader, depth: int) -> Value:
    """Numbers as a read-only array in the map (perhaps unaligned), text as StringArray, arrays as a tuple."""
    kind = cursor.u32()
    if kind in _DTYPES:
        n = cursor.count(_DTYPES[kind].itemsize, "numbers")
        values = _numbers(cursor, kind, n)
        return _check_bools(cursor, values) if kind == BOOL else values
    if kind == STRING:
        return StringArray(cursor.buffer, cursor.string_starts(cursor.count(8, "strings")))
    if kind != ARRAY:
        cursor.fail(f"is damaged: there is no metadata type {kind}")
    if depth == _MAX_DEPTH:
        cursor.fail(f"is damaged: arrays are nested more than {_MAX_DEPTH} deep")
    n = cursor.count(12, "nested arrays", _MAX_NESTED - cursor.nested)
    cursor.nested += n
    return tuple(read_array(cursor, depth + 1) for _ in range(n))


def _numbers(cursor: HeaderReader, kind: int, n: int) -> np.ndarray[Any, Any]:
    """A view of the next `n` numbers. It may be unaligned, which numpy reads all the same."""
    dtype = _DTYPES[kind]
    start = cursor.skip(n * dtype.itemsize)
    return np.frombuffer(cursor.buffer[start : cursor.at], dtype)


def _check_bools(cursor: HeaderReader, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes as bool, when each is 0 or 1 as the specification demands."""
    if values.size and values.max() > 1:
        cursor.fail("is damaged: a true-or-false value is neither 0 nor 1")
    return values.view(np.bool_)
