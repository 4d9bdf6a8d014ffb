"""The version "gemv" of AWQ, which is stored by rows.

    MODULE.qweight   I32  [rows, columns / 8]    packed along the columns, the first in the lowest bits
    MODULE.qzeros    I32  [rows, width]          packed in the same way, and padded behind the groups
    MODULE.scales    F16  [rows, 8 · width]      or BF16, or F32

Source: `from_linear` and `calculate_zeros_width` of awq/modules/linear/gemv.py.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.grouped import decode_groups
from converters.checkpoint.quantized.parts import modules_with, part_of, sharing
from converters.checkpoint.quantized.small import FLOATS, as_float32, check_finite
from converters.checkpoint.quantized.weight import Precision, QuantizedWeight, Tensors
from converters.checkpoint.quantized.words import unpacked
from converters.checkpoint.rows import stored
from converters.checkpoint.shard import StoredTensor
from converters.tensors import RowReader
from edgellm.fmt import printable

_BITS, _IN_WORD = 4, 8


def find_gemv(tensors: Tensors, group_size: int) -> Iterator[QuantizedWeight]:
    """The weights, in groups of `group_size` columns. Raises ModelFileError."""
    for module in modules_with(tensors, "qweight"):
        codes = part_of(tensors, module, "qweight", ("I32",), (None, None))
        rows, columns = codes.shape[0], codes.shape[1] * _IN_WORD
        zeros = part_of(tensors, module, "qzeros", ("I32",), (rows, None))
        scales = part_of(tensors, module, "scales", tuple(FLOATS), (rows, zeros.shape[1] * _IN_WORD))
        size = group_size if group_size > 0 else columns
        groups = -(-columns // size)
        if groups > scales.shape[1]:
            problem = f"tensor {printable(scales.name)} has {scales.shape[1]} groups, fewer than {columns} columns have"
            fail(scales.file, f"{problem} in groups of {size}; download the checkpoint again")
        reader, precision = (
            partial(_reader, codes, zeros, scales, size),
            Precision("AWQ", _BITS, sharing(columns, groups)),
        )
        yield QuantizedWeight(f"{module}.weight", (rows, columns), "F32", (codes, zeros, scales), precision, reader)


def _reader(codes: StoredTensor, zeros: StoredTensor, scales: StoredTensor, size: int) -> RowReader:
    columns = codes.shape[1] * _IN_WORD
    groups = np.arange(columns) // size
    count = int(groups[-1]) + 1
    of_codes, of_zeros, of_scales = stored(codes), stored(zeros), stored(scales)

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        factors = as_float32(of_scales(first, last), scales.dtype)[:, :count]
        check_finite(scales, factors, first, "row", "group")
        points = unpacked(of_zeros(first, last).view("<u4"), _BITS)[:, :count].astype(np.float32)
        found = unpacked(of_codes(first, last).view("<u4"), _BITS).astype(np.float32)
        decode_groups(found, points, factors, groups)
        return found.view(np.uint8)

    return rows
