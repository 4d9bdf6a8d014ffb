"""Floats of 4 bits of bitsandbytes, NF4 and FP4, the module `Linear4bit`.

The weights of a tensor are numbered row by row, and `blocksize` neighbours share a scale. Of two weights in a byte the
first is in the high half:

    NAME                                  U8   [weights / 2, 1]   codes, or as many bytes of another type
    NAME.quant_map                        F32  [16]               the value of each code
    NAME.absmax                           F32  [blocks]           weight = quant_map[code] · absmax[block]
    NAME.quant_state.bitsandbytes__nf4    U8   [·]                JSON: shape, blocksize, …; or bitsandbytes__fp4

With double quantization the scales are codes, too, whose values have a scale for `nested_blocksize` of them:

    NAME.absmax                           U8   [blocks]
    NAME.nested_quant_map                 F32  [256]
    NAME.nested_absmax                    F32  [blocks / nested_blocksize]
    absmax = nested_quant_map[code] · nested_absmax[block / nested_blocksize] + nested_offset

Sources: `QuantState.as_dict`, `dequantize_4bit` and `dequantize_blockwise` of bitsandbytes/functional.py, which
compute in float32 as here; they then round to the type of the model.
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail, parse_json
from converters.checkpoint.json_values import LARGEST
from converters.checkpoint.quantized.parts import part_of
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.small import check_finite, read_floats
from converters.checkpoint.quantized.weight import Precision, QuantizedWeight, Tensors
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from converters.tensors import RowReader
from edgellm.fmt import printable

Floats = NDArray[np.float32]
Scales = Callable[[int, int], Floats]
"""The scales of blocks first … last - 1, float32 [n]."""

_STATE = ".quant_state.bitsandbytes__"
_KINDS = {"nf4": "NF4", "fp4": "FP4"}
_MAX_STATE_BYTES = 1 << 16
_BLOCK_SIZES = tuple(1 << i for i in range(5, 13))
"""Those of `quantize_4bit`, 32 … 4096."""

_SIZES = range(1, 1 << 31)


def find_4bit(tensors: Tensors) -> Iterator[QuantizedWeight]:
    """The weights of 4 bits. Raises ModelFileError."""
    for name, state in tensors.items():
        owner, found, kind = name.partition(_STATE)
        if found and kind in _KINDS:
            yield _weight(tensors, owner, state, _KINDS[kind])


def _weight(tensors: Tensors, name: str, stored: StoredTensor, kind: str) -> QuantizedWeight:
    state = _read_state(stored)
    shape, size = _shape(state), state.one_of("blocksize", _BLOCK_SIZES)
    count = prod(shape)
    codes = tensors.get(name)
    if codes is None or codes.nbytes != -(-count // 2):
        what = f"{codes.nbytes} bytes" if codes else "no tensor"
        problem = f"the {kind} tensor {printable(name)} of shape {list(shape)} has {what}, not {-(-count // 2)} bytes"
        fail(stored.file, f"{problem}; download the checkpoint again")
    blocks = -(-count // size)
    table = part_of(tensors, name, "quant_map", ("F32",), (16,))
    absmax = part_of(tensors, name, "absmax", ("F32", "U8"), (blocks,))
    parts, scales = [codes, stored, table, absmax], partial(_plain_scales, absmax)
    if absmax.dtype == "U8":
        inner = state.integer("nested_blocksize")
        nested = part_of(tensors, name, "nested_absmax", ("F32",), (-(-blocks // inner),))
        values = part_of(tensors, name, "nested_quant_map", ("F32",), (256,))
        parts += [nested, values]
        offset = np.float32(state.number("nested_offset", 0.0, least=-LARGEST))
        scales = partial(_nested_scales, absmax, nested, values, inner, offset)
    precision = Precision(f"bitsandbytes ({kind})", 4, f"in blocks of {size}")
    return QuantizedWeight(
        name, shape, "F32", tuple(parts), precision, partial(_reader, codes, table, scales, shape, size)
    )


def _read_state(stored: StoredTensor) -> Settings:
    if stored.dtype != "U8" or stored.nbytes > _MAX_STATE_BYTES:
        problem = f"tensor {printable(stored.name)} is {stored.dtype} of {stored.nbytes} bytes, and no short text"
        fail(stored.file, f"{problem}; download the checkpoint again")
    content, name = read_bytes(stored.file, stored.offset, stored.nbytes).tobytes(), printable(stored.name)
    state = parse_json(stored.file, content, f"tensor {name} ")
    if not isinstance(state, dict):
        fail(stored.file, f"tensor {name} holds no JSON object; download the checkpoint again")
    return Settings(stored.file, state)


def _shape(state: Settings) -> tuple[int, ...]:
    shape = state.value("shape")
    if not isinstance(shape, list) or not shape or not all(type(n) is int and n in _SIZES for n in shape):
        state.fail(f"the shape of a tensor of 4 bits is {printable(repr(shape))}; download the checkpoint again")
    return tuple(shape)


def _reader(
    codes: StoredTensor, table: StoredTensor, scales: Callable[[], Scales], shape: tuple[int, ...], size: int
) -> RowReader:
    """A reader of rows as float32. Raises ModelFileError for tables with NaN or Inf."""
    values, scales_of, columns = read_floats(table), scales(), shape[-1]
    check_finite(table, values, 0, "code")

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        start, end = first * columns, last * columns
        data = read_bytes(codes.file, codes.offset + start // 2, -(-end // 2) - start // 2)
        halves = np.stack([data >> 4, data & 15], axis=-1).reshape(-1)
        found = values[halves[start % 2 :][: end - start]]
        block = start // size
        factors = scales_of(block, -(-end // size)).repeat(size)
        with np.errstate(over="ignore"):  # the encoder refuses Inf, naming row and column
            found *= factors[start - block * size :][: end - start]
        return found.reshape(last - first, columns).view(np.uint8)

    return rows


def _plain_scales(absmax: StoredTensor) -> Scales:
    def scales(first: int, last: int) -> Floats:
        found = read_bytes(absmax.file, absmax.offset + 4 * first, 4 * (last - first)).view("<f4")
        check_finite(absmax, found, first, "block")
        return found

    return scales


def _nested_scales(
    absmax: StoredTensor, nested: StoredTensor, values: StoredTensor, size: int, offset: np.float32
) -> Scales:
    table, outer = read_floats(values), read_floats(nested)
    check_finite(values, table, 0, "code")
    check_finite(nested, outer, 0, "block")

    def scales(first: int, last: int) -> Floats:
        codes = read_bytes(absmax.file, absmax.offset + first, last - first)
        with np.errstate(over="ignore"):
            found: Floats = table[codes] * outer[np.arange(first, last) // size] + offset
        check_finite(absmax, found, first, "block")
        return found

    return scales
