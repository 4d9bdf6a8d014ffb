"""Experts in MXFP4, as gpt-oss has them: the blocks of a tensor and their scales, as the blocks of GGUF.

Format: "OCP Microscaling Formats (MX)" 1.0. A checkpoint has `NAME_blocks`, uint8 [experts, rows, blocks, 16], and
`NAME_scales`, uint8 [experts, rows, blocks]. A byte holds two of the 32 weights of a block:

    byte i         weight 2 i in its low half, weight 2 i + 1 in its high half         in a checkpoint
    byte i         weight i in its low half, weight i + 16 in its high half            in GGUF, behind the scale
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.e2m1 import halves_apart
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.weight import Finder, Method, Precision, QuantizedWeight, Tensors
from converters.checkpoint.rows import stored
from converters.checkpoint.shard import StoredTensor
from converters.tensors import RowReader
from edgellm.fmt import printable

_NAME = "MXFP4"
_BLOCKS, _SCALES = "_blocks", "_scales"
_WEIGHTS, _BYTES = 32, 16
_NAN = 0xFF
"""The scale of a block that stands for no number (E8M0)."""

_PRECISION = Precision(_NAME, 4, f"in blocks of {_WEIGHTS}")


def find_mxfp4(tensors: Tensors) -> Iterator[QuantizedWeight]:
    """The tensors of blocks, as MXFP4 of [experts, rows, weights].

    Raises ModelFileError for blocks without scales, or with those of other shapes.
    """
    for name, blocks in tensors.items():
        if not name.endswith(_BLOCKS) or blocks.dtype != "U8":
            continue
        scales = tensors.get(name.removesuffix(_BLOCKS) + _SCALES)
        if scales is None:
            fail(blocks.file, f"MXFP4 tensor {printable(name)} has no scales beside it; download the checkpoint again")
        if blocks.shape != (*scales.shape, _BYTES) or scales.dtype != "U8" or len(scales.shape) != 3:
            shapes = f"{list(blocks.shape)} and scales {scales.dtype} {list(scales.shape)}"
            problem = f"MXFP4 tensor {printable(name)} has blocks {shapes}, which do not fit each other"
            fail(blocks.file, f"{problem}; download the checkpoint again")
        shape = (*scales.shape[:-1], _WEIGHTS * scales.shape[-1])
        yield QuantizedWeight(name, shape, _NAME, (blocks, scales), _PRECISION, partial(_reader, blocks, scales))


def _recognizes(settings: Settings) -> bool:
    return settings.method == "mxfp4"


def _finder(settings: Settings) -> Finder:
    return find_mxfp4


MXFP4 = Method(_recognizes, _finder)


def _reader(blocks: StoredTensor, scales: StoredTensor) -> RowReader:
    """A reader of rows as blocks of GGUF: of each the scale, then 16 bytes.

    The reader raises ModelFileError for a scale that is NaN.
    """
    per_row = scales.shape[-1]
    bytes_of, scales_of = stored(replace(blocks, shape=(1, per_row * _BYTES))), stored(scales)

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        found = np.empty((last - first, per_row, 1 + _BYTES), np.uint8)
        found[..., 0] = scales_of(first, last)
        _check_scales(scales, first, found[..., 0])
        found[..., 1:] = halves_apart(bytes_of(first, last).reshape(last - first, per_row, _BYTES))
        return found.reshape(last - first, -1)

    return rows


def _check_scales(scales: StoredTensor, first: int, read: NDArray[np.uint8]) -> None:
    """Raise ModelFileError if one is NaN of those `read`, uint8 [rows, blocks], from row `first` on."""
    is_nan = read == _NAN
    if not is_nan.any():
        return
    row, block = divmod(int(is_nan.argmax()), read.shape[1])
    matrix, row = divmod(first + row, scales.shape[1])
    where = f"tensor {printable(scales.name)}, matrix {matrix}, row {row}, block {block}"
    fail(scales.file, f"{where}: holds nan instead of a number; get a whole copy of the model")
