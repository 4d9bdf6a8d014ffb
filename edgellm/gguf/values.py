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
"""The token id with which converters write "this model has no such token", as a signed and as an unsigned number."""

BOOL, STRING, ARRAY = 7, 8, 9
_LAYOUTS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_SCALARS = {kind: struct.Struct("<" + code) for kind, code in _LAYOUTS.items()}
_DTYPES = {kind: np.dtype("<" + code) for kind, code in _LAYOUTS.items()} | {BOOL: np.dtype(np.uint8)}

_MAX_NESTED, _MAX_DEPTH = 1 << 16, 8
"""Limits on arrays inside arrays. Each becomes a Python object, many times larger than its 12 bytes in the file."""


class StringArray(Sequence[str]):
    """An array of strings in a mapped file, decoded on access.

    Tokens are not always UTF-8: items of the sequence have U+FFFD for invalid bytes, `raw` returns the bytes.
    """

    __slots__ = ("_buffer", "_starts")

    def __init__(self, buffer: memoryview, starts: "array[int]") -> None:
        self._buffer = buffer
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def raw(self, index: int) -> bytes:
        """The bytes of string `index`. Raises IndexError."""
        i = range(len(self))[index]
        return bytes(self._buffer[self._starts[i] + 8 : self._starts[i + 1]])

    def raws(self) -> Iterator[bytes]:
        """The bytes of each string, in order."""
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
        return f"<StringArray: {len(self)}>"


Value: TypeAlias = "int | float | str | np.ndarray[Any, Any] | StringArray | tuple[Value, ...]"


def read_value(reader: HeaderReader, kind: int) -> Value:
    """Read a metadata value of type number `kind`: int, float, bool, str or an array (see `read_array`)."""
    if kind in _SCALARS:
        return reader.unpack(_SCALARS[kind])
    if kind == BOOL:
        return bool(_check_bools(reader, _numbers(reader, BOOL, 1))[0])
    if kind == STRING:
        return reader.string().decode(errors="replace")
    if kind == ARRAY:
        return read_array(reader, 0)
    return reader.fail(f"is damaged: there is no metadata type {kind}")


def read_array(reader: HeaderReader, depth: int) -> Value:
    """Read an array: numbers as a read-only view of the map (maybe unaligned), text as StringArray, arrays as tuple."""
    kind = reader.u32()
    if kind in _DTYPES:
        n = reader.count(_DTYPES[kind].itemsize, "numbers")
        values = _numbers(reader, kind, n)
        return _check_bools(reader, values) if kind == BOOL else values
    if kind == STRING:
        return StringArray(reader.buffer, reader.string_starts(reader.count(8, "strings")))
    if kind != ARRAY:
        reader.fail(f"is damaged: there is no metadata type {kind}")
    if depth == _MAX_DEPTH:
        reader.fail(f"is damaged: arrays are nested more than {_MAX_DEPTH} deep")
    n = reader.count(12, "nested arrays", _MAX_NESTED - reader.nested)
    reader.nested += n
    return tuple(read_array(reader, depth + 1) for _ in range(n))


def _numbers(reader: HeaderReader, kind: int, n: int) -> np.ndarray[Any, Any]:
    """A view of the next `n` numbers. It may be unaligned; numpy reads it correctly."""
    dtype = _DTYPES[kind]
    start = reader.skip(n * dtype.itemsize)
    return np.frombuffer(reader.buffer[start : reader.offset], dtype)


def _check_bools(reader: HeaderReader, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes as bool. Raises ModelFileError for a byte that is neither 0 nor 1, as the specification demands."""
    if values.size and values.max() > 1:
        reader.fail("is damaged: a true-or-false value is neither 0 nor 1")
    return values.view(np.bool_)
