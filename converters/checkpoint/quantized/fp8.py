"""FP8: a matrix of 8-bit floats, with a scale for the whole of it, for each row, or for each block.

A checkpoint has `NAME`, F8_E4M3 or F8_E5M2 [rows, columns], and its scales in `NAME_scale_inv` (DeepSeek, Qwen) or
`NAME_scale` (FBGEMM, compressed-tensors): F32, F16 or BF16 [], [1], [1, 1], [rows], [rows, 1], or one for each block
of `weight_block_size`. Both are factors. Scales of activations are not needed: `input_scale`, `activation_scale`.
"""

from collections.abc import Iterator
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
from converters.tensors import RowReader
from edgellm.fmt import printable

Block = tuple[int, int]

_DTYPES = ("F8_E4M3", "F8_E5M2")
_SCALES = ("_scale_inv", "_scale")
_OF_INPUTS = ("input_scale", "activation_scale")
_BLOCK = (128, 128)
# "dense" marks checkpoints in which only the KV cache is quantized.
_FORMATS = ("float-quantized", "naive-quantized", "dense")


def find_fp8(tensors: Tensors, block: Block = _BLOCK) -> Iterator[QuantizedWeight]:
    """The FP8 weights; where scales are of blocks, these have the rows and columns `block`."""
    for name, weight in tensors.items():
        if weight.dtype not in _DTYPES:
            continue
        added = [name + end for end in _SCALES] + [name.removesuffix("weight") + end for end in _OF_INPUTS]
        scale = next((tensors[name + end] for end in _SCALES if name + end in tensors), None)
        parts = (weight, *(tensors[each] for each in added if each in tensors))
        yield QuantizedWeight(
            name, weight.shape, "F32", parts, _precision(weight, scale, block), partial(_reader, weight, scale, block)
        )


def _recognizes(settings: Settings) -> bool:
    if settings.method == "compressed-tensors":
        return settings.word("format", _FORMATS[0]) in _FORMATS
    return settings.method in ("fp8", "fbgemm_fp8")


def _finder(settings: Settings) -> Finder:
    block = settings.value("weight_block_size") or list(_BLOCK)
    if not isinstance(block, list) or len(block) != 2 or not all(type(n) is int and n > 0 for n in block):
        settings.fail("weight_block_size must be two numbers above 0; download it again")
    return partial(find_fp8, block=(block[0], block[1]))


FP8 = Method(_recognizes, _finder)


def _precision(weight: StoredTensor, scale: StoredTensor | None, block: Block) -> Precision:
    """What shares a scale, by the shape of the scales."""
    if scale is None or scale.shape in ((), (1,), (1, 1)):
        return Precision("FP8", 8, "with a scale for each matrix")
    if scale.shape in (weight.shape[:1], (*weight.shape[:1], 1)):
        return Precision("FP8", 8, "with a scale for each row")
    return Precision("FP8", 8, f"in blocks of {block[0]} x {block[1]}")


def _reader(weight: StoredTensor, scale: StoredTensor | None, block: Block) -> RowReader:
    """A reader of rows as float32. Raises ModelFileError for scales that are missing or fit no matrix."""
    what = f"FP8 tensor {printable(weight.name)}"
    if scale is None:
        fail(weight.file, f"{what} has no scale beside it; download the checkpoint again")
    what += f" ({'x'.join(map(str, weight.shape))})"
    if len(weight.shape) != 2:
        fail(weight.file, f"{what} is no matrix, and only matrices are read in FP8; get the checkpoint in BF16")
    if scale.dtype not in FLOATS:
        fail(weight.file, f"{what} has {scale.dtype} scales; get another checkpoint")
    read, scales = stored(weight), _read_scales(weight, scale, block)

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        return decode(read(first, last), weight.dtype, scales, first).view(np.uint8)

    return rows


def _read_scales(weight: StoredTensor, scale: StoredTensor, block: Block) -> FP8Scales:
    """Read scales: one per tensor, one per row, or one per `block` of rows and columns.

    Raises ModelFileError if their shape matches none of these, or if they cannot be read.
    """
    rows, columns = weight.shape
    blocks = (-(-rows // block[0]), -(-columns // block[1]))
    if scale.shape in ((), (1,), (1, 1)):
        return FP8Scales(read_floats(scale).reshape(1, 1), rows, columns)
    if scale.shape in ((rows,), (rows, 1)):
        return FP8Scales(read_floats(scale).reshape(rows, 1), 1, columns)
    if scale.shape == blocks:
        return FP8Scales(read_floats(scale).reshape(blocks), min(block[0], rows), min(block[1], columns))
    found = "x".join(map(str, scale.shape))
    problem = f"{found} scales, which fit no {rows}x{columns} matrix; get another checkpoint"
    return fail(scale.file, f"tensor {printable(scale.name)} holds {problem}")
