"""FP8: a matrix of 8-bit floats, with a scale for the whole of it, for each row, or for each block.

A checkpoint has `NAME`, F8_E4M3 or F8_E5M2 [rows, columns], and its scales in `NAME_scale_inv` (DeepSeek, Qwen) or
`NAME_scale` (FBGEMM, compressed-tensors, ModelOpt): F32, F16 or BF16 [], [1], [1, 1], [rows], [rows, 1], or one for
each block of `weight_block_size`, [row blocks, column blocks], in ModelOpt with dimensions of 1 behind each. Both are
factors. Scales of activations are not needed: `input_scale`, `activation_scale`. Zero points, which early checkpoints
of compressed-tensors have, are 0.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.fp8_numbers import FP8Scales, decode
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.small import FLOATS, read_floats
from converters.checkpoint.quantized.weight import Finder, Method, Precision, QuantizedWeight, Tensors
from converters.checkpoint.rows import stored
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from converters.tensors import RowReader
from edgellm.fmt import printable

Block = tuple[int, int]

_DTYPES = ("F8_E4M3", "F8_E5M2")
_SCALES = ("_scale_inv", "_scale")
_OF_INPUTS = ("input_scale", "activation_scale")
_ZERO_POINT = "_zero_point"
_BLOCK = (128, 128)


def find_fp8(tensors: Tensors, blocks: Sequence[Block] = (_BLOCK,)) -> Iterator[QuantizedWeight]:
    """The FP8 weights; where scales are of blocks, these have the rows and columns of one of `blocks`."""
    for name, weight in tensors.items():
        if weight.dtype not in _DTYPES or name.endswith((*_SCALES, _ZERO_POINT)):
            continue
        added = [name + end for end in (*_SCALES, _ZERO_POINT)] + [
            name.removesuffix("weight") + end for end in _OF_INPUTS
        ]
        scale = next((tensors[name + end] for end in _SCALES if name + end in tensors), None)
        parts = (weight, *(tensors[each] for each in added if each in tensors))
        reader = partial(_reader, weight, scale, tensors.get(name + _ZERO_POINT), blocks)
        yield QuantizedWeight(name, weight.shape, "F32", parts, _precision(weight, scale, blocks), reader)


def read_block(settings: Settings, key: str) -> Block:
    """The rows and columns of a block at `key`. Raises ModelFileError."""
    block = settings.value(key)
    if not isinstance(block, list) or len(block) != 2 or not all(type(n) is int and n > 0 for n in block):
        settings.fail(f"{key} must be two numbers above 0; download it again")
    return block[0], block[1]


def _recognizes(settings: Settings) -> bool:
    return settings.method in ("fp8", "fbgemm_fp8")


def _finder(settings: Settings) -> Finder:
    key = "weight_block_size"
    return partial(find_fp8, blocks=(read_block(settings, key) if key in settings else _BLOCK,))


FP8 = Method(_recognizes, _finder)


def _precision(weight: StoredTensor, scale: StoredTensor | None, blocks: Sequence[Block]) -> Precision:
    """What shares a scale, by the shape of the scales."""
    shape = _shape(scale) if scale else ()
    if shape in ((), (1,), (1, 1)):
        return Precision("FP8", 8, "with a scale for each matrix")
    if shape in (weight.shape[:1], (*weight.shape[:1], 1)):
        return Precision("FP8", 8, "with a scale for each row")
    rows, columns = _block_of(weight.shape, shape, blocks) or _BLOCK
    return Precision("FP8", 8, f"in blocks of {rows} x {columns}" if rows > 1 else f"in groups of {columns}")


def _reader(
    weight: StoredTensor, scale: StoredTensor | None, zeros: StoredTensor | None, blocks: Sequence[Block]
) -> RowReader:
    """A reader of rows as float32. Raises ModelFileError for scales that are missing or fit no matrix."""
    what = f"FP8 tensor {printable(weight.name)}"
    if scale is None:
        fail(weight.file, f"{what} has no scale beside it; download the checkpoint again")
    what += f" ({'x'.join(map(str, weight.shape))})"
    if len(weight.shape) != 2:
        fail(weight.file, f"{what} is no matrix, and only matrices are read in FP8; get the checkpoint in BF16")
    if scale.dtype not in FLOATS:
        fail(weight.file, f"{what} has {scale.dtype} scales; get another checkpoint")
    if zeros is not None and read_bytes(zeros.file, zeros.offset, zeros.nbytes).any():
        fail(weight.file, f"{what} has zero points that are not 0; get another checkpoint")
    read, scales = stored(weight), _read_scales(weight, scale, blocks)

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        return decode(read(first, last), weight.dtype, scales, first).view(np.uint8)

    return rows


def _read_scales(weight: StoredTensor, scale: StoredTensor, blocks: Sequence[Block]) -> FP8Scales:
    """Read scales: one per tensor, one per row, or one per block of rows and columns.

    Raises ModelFileError if their shape matches none of these, or if they cannot be read.
    """
    (rows, columns), shape = weight.shape, _shape(scale)
    if shape in ((), (1,), (1, 1)):
        return FP8Scales(read_floats(scale).reshape(1, 1), rows, columns)
    if shape in ((rows,), (rows, 1)):
        return FP8Scales(read_floats(scale).reshape(rows, 1), 1, columns)
    block = _block_of(weight.shape, shape, blocks)
    if block:
        return FP8Scales(read_floats(scale).reshape(shape), min(block[0], rows), min(block[1], columns))
    found = "x".join(map(str, scale.shape))
    problem = f"{found} scales, which fit no {rows}x{columns} matrix; get another checkpoint"
    return fail(scale.file, f"tensor {printable(scale.name)} holds {problem}")


def _shape(scale: StoredTensor) -> tuple[int, ...]:
    """The shape of scales, without the dimensions of 1 that ModelOpt adds to those of blocks."""
    shape = scale.shape
    return shape[::2] if len(shape) == 4 and shape[1::2] == (1, 1) else shape


def _block_of(weight: tuple[int, ...], scales: tuple[int, ...], blocks: Sequence[Block]) -> Block | None:
    """The block of which a matrix has as many rows and columns as there are scales; None if there is none."""
    counts = ((block, tuple(-(-n // size) for n, size in zip(weight, block, strict=False))) for block in blocks)
    return next((block for block, count in counts if count == scales), None)
