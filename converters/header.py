"""The header of a GGUF file (metadata and tensor table), and the offset of each tensor.

Layout of version 3 (ggml/docs/gguf.md), all integers little-endian:

    "GGUF" | version u32 | tensors u64 | keys u64
    each key:     name string | kind u32 | value
    each tensor:  name string | dimensions u32 | sizes u64…, innermost first | type u32 | offset u64
    padding to the alignment, then the tensors, each padded to it

A string is its length as u64 and its bytes; an array is its items' kind u32, their number u64, and the items.

The `gguf` package cannot copy the metadata of another file bit for bit, so this module writes the header itself.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from converters.tensors import Metadata, MetadataValue, PlannedTensor

EncodedMetadata = Mapping[str, bytes]
"""Metadata in the order of the file: each key with the encoded bytes of its type and value."""

_VERSION, _DEFAULT_ALIGNMENT = 3, 32
_STRING, _ARRAY = 8, 9
_KINDS = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7} | {
    "str": _STRING,
    "u64": 10,
    "i64": 11,
    "f64": 12,
}
_DTYPES = {
    **{kind: np.dtype(f"<{kind[0]}{int(kind[1:]) // 8}") for kind in _KINDS if kind[1:].isdigit()},
    "bool": np.dtype(np.bool_),
}


class GGUFLayout(NamedTuple):
    """The header without padding, the byte offset of each tensor, and the length of the file in bytes."""

    header: bytes
    offsets: list[int]
    nbytes: int


def encode_pairs(metadata: Metadata) -> dict[str, bytes]:
    """Encode metadata. Raises KeyError for an unknown kind, OverflowError for a number too large for its kind."""
    return {key: encode_value(value) for key, value in metadata.items()}


def encode_value(value: MetadataValue) -> bytes:
    """The type and the value as bytes; lists, tuples and numpy arrays become arrays of the kind."""
    number = _KINDS[value.kind]
    if not isinstance(value.value, list | tuple | np.ndarray):
        return struct.pack("<I", number) + _items(value.kind, [value.value])
    head = struct.pack("<IIQ", _ARRAY, number, len(value.value))
    return head + _items(value.kind, value.value)


def _items(kind: str, items: Any) -> bytes:
    if kind == "str":
        return b"".join(map(_string, items))
    return np.asarray(items, _DTYPES[kind]).tobytes()


def _string(text: str | bytes) -> bytes:
    """The length and the bytes; bytes of a file's name that are not UTF-8 become question marks."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def layout_file(pairs: EncodedMetadata, tensors: Sequence[PlannedTensor]) -> GGUFLayout:
    """Lay out header and tensors, in the given order, at the alignment that the metadata sets."""
    alignment = _alignment(pairs)
    spans = [_padded(tensor.nbytes, alignment) for tensor in tensors]
    starts = [0, *accumulate(spans)][:-1]
    head = struct.pack("<4sIQQ", b"GGUF", _VERSION, len(tensors), len(pairs))
    keys = [_string(key) + value for key, value in pairs.items()]
    table = [_tensor_info(tensor, start) for tensor, start in zip(tensors, starts, strict=True)]
    header = b"".join([head, *keys, *table])
    data = _padded(len(header), alignment)
    return GGUFLayout(header, [data + start for start in starts], data + sum(spans))


def _alignment(pairs: EncodedMetadata) -> int:
    encoded = pairs.get("general.alignment")
    return int.from_bytes(encoded[4:], "little") if encoded else _DEFAULT_ALIGNMENT


def _padded(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def _tensor_info(tensor: PlannedTensor, start: int) -> bytes:
    shape = tensor.source.shape
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
    return _string(tensor.source.name) + sizes + struct.pack("<IQ", tensor.type.number, start)
