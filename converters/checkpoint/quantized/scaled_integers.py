"""Matrices of integers stored by rows, in which all weights, a row, or a group of columns of it share a scale.

weight = scale · (integer - zero), which float32 holds exactly where scales are F16 or BF16
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.blocks import BLOCK, RANGES, encoded
from converters.checkpoint.quantized.parts import part_of
from converters.checkpoint.quantized.small import FLOATS, as_float32, check_finite
from converters.checkpoint.quantized.weight import Tensors
from converters.checkpoint.rows import stored
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from converters.tensors import ExactRows, RowReader
from edgellm.fmt import printable

Integers = NDArray[np.int16]
IntegerRows = Callable[[int, int], Integers]
"""Integers of rows first … last - 1: of all columns, or one for each group."""

_IN_FIVE_BITS = 5
"""The most bits of integers that fit a type smaller than Q8_0; messages name that type for them."""
_CHUNK = 1 << 20
"""Scales that are read at once."""


class ScaledIntegers(NamedTuple):
    """A matrix of `rows` × `columns` integers of `bits`, from -2^(bits - 1) on.

    `integers` reads all columns; `zeros` reads zero points [rows, groups], None where all are 0. `scales` is a tensor
    [1], [rows], or [rows, groups]. `own_groups`, a tensor I32 [columns], has the group of each column; without it,
    column i is in group i // `group_size`.
    """

    rows: int
    columns: int
    bits: int
    integers: IntegerRows
    zeros: IntegerRows | None
    scales: StoredTensor
    own_groups: StoredTensor | None
    group_size: int

    def reader(self) -> ExactRows:
        """The rows as float32, or as blocks. Raises ModelFileError for groups that do not exist."""
        groups = self._groups()
        return ExactRows(partial(self._floats, groups), partial(self._blocks_of, groups))

    @property
    def group_count(self) -> int:
        """Scales of a row."""
        return group_count(self.scales)

    def _floats(self, groups: NDArray[np.intp], first: int, last: int) -> NDArray[np.uint8]:
        found = self._differences(groups, first, last).astype(np.float32)
        with np.errstate(over="ignore"):  # the encoder refuses Inf, naming row and column
            found *= self._scales(first, last).take(groups, axis=1)
        return found.view(np.uint8)

    def _differences(self, groups: NDArray[np.intp], first: int, last: int) -> Integers:
        """Integers less their zero points, [rows, columns]."""
        found = self.integers(first, last)
        return found - self.zeros(first, last).take(groups, axis=1) if self.zeros else found

    def _scales(self, first: int, last: int) -> NDArray[np.float32]:
        """The scales [rows, groups] of some rows, or [1, 1] where there is one alone. Raises ModelFileError."""
        tensor = self.scales
        if is_single(tensor):
            first, last = 0, 1
        row_bytes = self.group_count * tensor.width
        data = read_bytes(tensor.file, tensor.offset + first * row_bytes, (last - first) * row_bytes)
        values = as_float32(data.reshape(last - first, row_bytes), tensor.dtype)
        check_finite(tensor, values, first, "row", "group")
        return values

    def _groups(self) -> NDArray[np.intp]:
        """The group of each column."""
        tensor, count = self.own_groups, self.group_count
        in_order = np.arange(self.columns) // self.group_size
        if tensor is None:
            return in_order
        groups = read_bytes(tensor.file, tensor.offset, tensor.nbytes).view("<i4")
        if (groups == -1).all():  # as long as no order is known
            return in_order
        wrong = (groups < 0) | (groups >= count)
        if wrong.any():
            column = int(wrong.argmax())
            where = f"tensor {printable(tensor.name)}, column {column}: names group {groups[column]}"
            fail(tensor.file, f"{where} of {count}; get a whole copy of the model")
        return groups.astype(np.intp)

    def _blocks_of(self, groups: NDArray[np.intp], kind: str) -> RowReader | None:
        """A reader of rows as blocks of the type `kind`, None if that does not hold the same numbers."""
        if kind not in RANGES or self.columns % BLOCK or (kind == "Q8_0" and self.bits <= _IN_FIVE_BITS):
            return None
        of_blocks = groups.reshape(-1, BLOCK)
        if (of_blocks != of_blocks[:, :1]).any() or not self._fits(kind) or not self._has_half_scales():
            return None
        return partial(self._blocks, groups, kind)

    def _blocks(self, groups: NDArray[np.intp], kind: str, first: int, last: int) -> NDArray[np.uint8]:
        integers = self._differences(groups, first, last).astype(np.int8)
        scales = np.broadcast_to(self._scales(first, last), (last - first, self.group_count))
        return encoded(integers, scales.take(groups[::BLOCK], axis=1), kind)

    def _fits(self, kind: str) -> bool:
        """Whether all integers that may be there are in the range of a type. Reads the zero points."""
        half = 1 << self.bits - 1
        zeros = self.zeros(0, self.rows) if self.zeros else np.zeros(1, np.int16)
        return -RANGES[kind] <= -half - int(zeros.max()) and half - 1 - int(zeros.min()) < RANGES[kind]

    def _has_half_scales(self) -> bool:
        """Whether float16 holds all scales. Reads them, unless they are F16."""
        if self.scales.dtype == "F16":
            return True
        step = max(1, _CHUNK // self.group_count)
        with np.errstate(over="ignore", under="ignore"):
            parts = (self._scales(first, min(first + step, self.rows)) for first in range(0, self.rows, step))
            return all(np.array_equal(each.astype(np.float16).astype(np.float32), each) for each in parts)


def is_single(scales: StoredTensor) -> bool:
    """Whether there is one scale for the whole matrix."""
    return scales.shape in ((), (1,))


def group_count(scales: StoredTensor) -> int:
    """Scales of a row."""
    return scales.shape[1] if len(scales.shape) == 2 else 1


def part_of_scales(tensors: Tensors, module: str, rows: int) -> StoredTensor:
    """The tensor "module.weight_scale": one scale, or some for each of `rows`. Raises ModelFileError."""
    found = tensors.get(f"{module}.weight_scale")
    shapes = {0: (), 1: (1,) if found and found.shape == (1,) else (rows,)}
    shape = shapes.get(len(found.shape), (rows, None)) if found else (rows, None)
    return part_of(tensors, module, "weight_scale", tuple(FLOATS), shape)


def small_integers(tensor: StoredTensor) -> IntegerRows:
    """A reader of integers stored as I8, one or some for each row."""
    row = tensor.shape[1] if len(tensor.shape) == 2 else 1
    if is_single(tensor):
        value = read_bytes(tensor.file, tensor.offset, 1).view(np.int8).astype(np.int16)
        return lambda first, last: value.reshape(1, 1)
    read = stored(tensor) if row > 1 else partial(_column, tensor)
    return lambda first, last: read(first, last).view(np.int8).astype(np.int16)


def _column(tensor: StoredTensor, first: int, last: int) -> NDArray[np.uint8]:
    return read_bytes(tensor.file, tensor.offset + first, last - first).reshape(-1, 1)
