"""Integers of compressed-tensors: packed into words (`pack-quantized`), or in bytes (`int-quantized`).

A module of `rows` outputs and `columns` inputs has, with n = 32 / bits integers in a word, rounded down:

    MODULE.weight_packed       I32   [rows, columns / n]    integers plus 2^(bits - 1), the first in the lowest bits
    MODULE.weight_shape        I64   [2]                    rows, columns
    MODULE.weight_scale        BF16  [rows, groups]         or F16, F32; [rows, 1] for one of a row, [1] for one alone
    MODULE.weight_zero_point   I32   [rows / n, groups]     packed along the rows in the same way; or I8 like the scales
    MODULE.weight_g_idx        I32   [columns]              the group of each column (`actorder`), or -1 everywhere

or `MODULE.weight`, I8 [rows, columns], in place of the first two. Zero points and g_idx are not in all checkpoints. The
tensors tell all but the bits of an integer and the size of a group, for which config.json has one scheme or several.
Sources: `pack_to_int32` and `compress_weight` of pack_quantized.py, in compressed_tensors/compressors.
"""

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.parts import part_of
from converters.checkpoint.quantized.scaled_integers import (
    IntegerRows,
    Integers,
    ScaledIntegers,
    group_count,
    is_single,
    part_of_scales,
    small_integers,
)
from converters.checkpoint.quantized.weight import Precision, QuantizedWeight, Tensors
from converters.checkpoint.rows import stored as stored_rows
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from edgellm.fmt import printable

_METHOD = "compressed-tensors"
_WORD = 32


class IntegerScheme(NamedTuple):
    """What config.json says of integers: their `bits`, and the columns of a group, None where a row has one scale."""

    bits: int
    group_size: int | None

    def size_of(self, columns: int) -> int:
        """The columns of a group, in rows of `columns` columns."""
        return min(self.group_size or columns, columns)


class _ZeroPoints(NamedTuple):
    stored: StoredTensor
    rows: IntegerRows


def packed_integers(tensors: Tensors, module: str, schemes: Collection[IntegerScheme]) -> QuantizedWeight:
    """The weight of a module with `weight_packed`, of one of the `schemes`. Raises ModelFileError."""
    codes = part_of(tensors, module, "weight_packed", ("I32",), (None, None))
    shape = part_of(tensors, module, "weight_shape", ("I64", "I32"), (2,))
    rows, columns = _read_shape(shape)
    scales = part_of_scales(tensors, module, rows)
    bits, size = _fitting(codes, (rows, columns), scales, schemes)
    codes_of = partial(_unpacked_rows, codes, bits, columns)
    return _weight(
        tensors, module, ScaledIntegers(rows, columns, bits, codes_of, None, scales, None, size), codes, shape
    )


def byte_integers(tensors: Tensors, module: str) -> QuantizedWeight:
    """The weight of a module with `weight` in I8. Raises ModelFileError."""
    codes = part_of(tensors, module, "weight", ("I8",), (None, None))
    rows, columns = codes.shape
    scales = part_of_scales(tensors, module, rows)
    groups = group_count(scales)
    if columns % groups:
        problem = f"tensor {printable(scales.name)} has {groups} groups, which are not those of {columns} columns"
        fail(scales.file, f"{problem}; download the checkpoint again")
    matrix = ScaledIntegers(rows, columns, 8, small_integers(codes), None, scales, None, columns // groups)
    return _weight(tensors, module, matrix, codes)


def _weight(tensors: Tensors, module: str, matrix: ScaledIntegers, *codes: StoredTensor) -> QuantizedWeight:
    """The weight of a matrix, with the zero points and the groups that the module has."""
    zeros, own = _zero_points(tensors, module, matrix), tensors.get(f"{module}.weight_g_idx")
    if own is not None:
        own = part_of(tensors, module, "weight_g_idx", ("I32",), (matrix.columns,))
    matrix = matrix._replace(zeros=zeros.rows if zeros else None, own_groups=own)
    parts = (*codes, matrix.scales, *((zeros.stored,) if zeros else ()), *((own,) if own else ()))
    sharing = f"in groups of {matrix.group_size}" if matrix.group_count > 1 else "with a scale for each row"
    if is_single(matrix.scales):
        sharing = "with a scale for each matrix"
    precision = Precision(_METHOD, matrix.bits, sharing)
    return QuantizedWeight(f"{module}.weight", (matrix.rows, matrix.columns), "F32", parts, precision, matrix.reader)


def _read_shape(tensor: StoredTensor) -> tuple[int, int]:
    """The rows and columns in `weight_shape`."""
    data = read_bytes(tensor.file, tensor.offset, tensor.nbytes)
    rows, columns = (int(n) for n in data.view("<i8" if tensor.dtype == "I64" else "<i4"))
    if rows < 1 or columns < 1:
        fail(tensor.file, f"tensor {printable(tensor.name)} is {[rows, columns]}, no shape; download it again")
    return rows, columns


def _fitting(
    codes: StoredTensor, shape: tuple[int, int], scales: StoredTensor, schemes: Collection[IntegerScheme]
) -> tuple[int, int]:
    """The bits of an integer and the columns of a group, by the one scheme that fits the tensors."""
    rows, columns = shape
    groups = group_count(scales)
    fitting = set()
    for scheme in schemes:
        words, size = -(-columns // (_WORD // scheme.bits)), scheme.size_of(columns)
        if codes.shape == (rows, words) and -(-columns // size) == groups:
            fitting.add((scheme.bits, size))
    if len(fitting) != 1:
        fits = "more than one scheme of config.json fits" if fitting else "no scheme of config.json fits"
        problem = f"tensor {printable(codes.name)} {list(codes.shape)}: {fits} a matrix {list(shape)}"
        fail(codes.file, f"{problem} with {groups} scales in a row; download the checkpoint again")
    return fitting.pop()


def _zero_points(tensors: Tensors, module: str, matrix: ScaledIntegers) -> _ZeroPoints | None:
    """The zero points of a module, None where it has none."""
    found = tensors.get(f"{module}.weight_zero_point")
    if found is None:
        return None
    if found.dtype == "I8":
        stored = part_of(tensors, module, "weight_zero_point", ("I8",), matrix.scales.shape)
        return _ZeroPoints(stored, small_integers(stored))
    shape = (-(-matrix.rows // (_WORD // matrix.bits)), matrix.group_count)
    stored = part_of(tensors, module, "weight_zero_point", ("I32", "I8"), shape)
    return _ZeroPoints(stored, partial(_unpacked_columns, stored, matrix.bits))


def _unpacked_rows(tensor: StoredTensor, bits: int, columns: int, first: int, last: int) -> Integers:
    """Integers [rows, columns] that are packed along the rows of `tensor`."""
    return _unpacked(stored_rows(tensor)(first, last).view("<u4"), bits)[:, :columns]


def _unpacked_columns(tensor: StoredTensor, bits: int, first: int, last: int) -> Integers:
    """Integers of rows first … last - 1, [rows, groups], which are packed along the columns of `tensor`."""
    each = _WORD // bits
    start = first // each
    words = stored_rows(tensor)(start, -(-last // each)).view("<u4")
    return _unpacked(words.T, bits).T[first - start * each : last - start * each]


def _unpacked(words: NDArray[np.uint32], bits: int) -> Integers:
    """The integers of words [n, words] in their order, less the 2^(bits - 1) that they were raised by."""
    shifts = np.arange(_WORD // bits, dtype=np.uint32) * np.uint32(bits)
    found = (words[..., None] >> shifts & np.uint32((1 << bits) - 1)).astype(np.int16)
    return (found - np.int16(1 << bits - 1)).reshape(len(words), -1)
