"""Build a GGUF file field by field, so that every kind of damage can be made.

The layout follows the specification, not the reader: header, metadata, tensor table, padding, data.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?"} | {
    U64: "Q",
    I64: "q",
    F64: "d",
}


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def number(kind: int, value: float) -> bytes:
    return struct.pack("<" + CODES[kind], value)


def array(kind: int, items: Sequence[bytes], count: int | None = None) -> bytes:
    return struct.pack("<IQ", kind, len(items) if count is None else count) + b"".join(items)


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def string_pair(key: str, value: str | bytes) -> bytes:
    return pair(key, STRING, text(value))


def u32_pair(key: str, value: int) -> bytes:
    return pair(key, U32, number(U32, value))


def strings_pair(key: str, values: Sequence[str | bytes]) -> bytes:
    return pair(key, ARRAY, array(STRING, [text(value) for value in values]))


@dataclass(frozen=True)
class RawTensor:
    """An entry of the tensor table, `dims` in file order (columns first), and the bytes for its data."""

    name: str | bytes
    dims: tuple[int, ...]
    kind: int
    offset: int
    data: bytes
    n_dims: int | None = None

    def info(self) -> bytes:
        n = len(self.dims) if self.n_dims is None else self.n_dims
        dims = struct.pack(f"<{len(self.dims)}Q", *self.dims)
        return text(self.name) + struct.pack("<I", n) + dims + struct.pack("<IQ", self.kind, self.offset)


@dataclass(frozen=True)
class RawGGUF:
    """A whole file. `n_pairs` and `n_tensors` lie about the counts when given."""

    pairs: tuple[bytes, ...] = (string_pair("general.architecture", "llama"),)
    tensors: tuple[RawTensor, ...] = field(default=())
    magic: bytes = b"GGUF"
    version: int = 3
    alignment: int = 32
    n_pairs: int | None = None
    n_tensors: int | None = None

    def header(self) -> bytes:
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_pairs = len(self.pairs) if self.n_pairs is None else self.n_pairs
        counts = struct.pack("<IQQ", self.version, n_tensors, n_pairs)
        return self.magic + counts + b"".join(self.pairs) + b"".join(t.info() for t in self.tensors)

    def build(self) -> bytes:
        file = bytearray(self.header())
        start = -(-len(file) // self.alignment) * self.alignment
        for tensor in self.tensors:
            if not tensor.data:
                continue
            begin = start + tensor.offset
            file.extend(bytes(max(0, begin + len(tensor.data) - len(file))))
            file[begin : begin + len(tensor.data)] = tensor.data
        return bytes(file)

    def having(self, *pairs: bytes) -> Self:
        return replace(self, pairs=self.pairs + pairs)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path


def f32_tensor(name: str, shape: tuple[int, ...], offset: int, values: Sequence[float]) -> RawTensor:
    """A float32 tensor; `shape` is in numpy order."""
    return RawTensor(name, shape[::-1], 0, offset, struct.pack(f"<{len(values)}f", *values))
