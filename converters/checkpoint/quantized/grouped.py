"""Matrices of integers stored by columns, in which a group of columns has a scale and a zero point for each row.

GPTQ and AWQ store a matrix of `rows` x `columns` so, transposed, and differ in how words hold the integers:

    codes    I32    integers of 2 to 8 bits, packed        see `Packing`
    zeros    I32    [groups, words], packed along rows     integers of as many bits
    scales   F16    [groups, rows], or BF16, or F32
    groups   I32    [columns]                              the group of each column, not always there

    weight = scale · (code - zero), which float32 holds exactly where scales are F16 or BF16
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.blocks import BLOCK, OFFSETS, encoded
from converters.checkpoint.quantized.panels import KEPT_BYTES, PANEL_BYTES, PanelCache
from converters.checkpoint.quantized.small import as_float32, check_finite
from converters.checkpoint.quantized.weight import Precision, QuantizedWeight
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes, read_pieces
from converters.tensors import ExactRows, RowReader
from edgellm.fmt import printable

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]

_TOGETHER = 32
"""Panels begin at multiples of this number of rows: the zero points of these fill whole words at any number of bits."""


class GroupedParts(NamedTuple):
    """The stored tensors of a matrix; without `groups`, column i is in group i // `group_size`."""

    codes: StoredTensor
    zeros: StoredTensor
    scales: StoredTensor
    groups: StoredTensor | None
    group_size: int

    @property
    def stored(self) -> tuple[StoredTensor, ...]:
        """All of them."""
        return tuple(part for part in self[:4] if isinstance(part, StoredTensor))


class Packing(NamedTuple):
    """How words hold integers of `bits`.

    `codes` takes words [·, n] of some rows, `rows_in_word` in each, and returns uint8 [rows, columns]. `zeros` takes
    words [groups, n] and returns integers [groups, rows].
    """

    bits: int
    rows_in_word: int
    codes: Callable[[Words], NDArray[np.uint8]]
    zeros: Callable[[Words], NDArray[np.uint8]]


class _Panel(NamedTuple):
    """Some rows of a matrix: packed codes, zero points and scales as float32 [rows, groups], the group of a column."""

    codes: Words
    zeros: Floats
    scales: Floats
    groups: NDArray[np.intp]


GroupedCache = PanelCache[_Panel]


class GroupedMatrix:
    """The matrix in `parts`, whose shape is (rows, columns).

    Shapes and dtypes of parts must have been checked. Reading raises ModelFileError for a group that does not exist,
    and for scales of NaN or Inf.
    """

    def __init__(self, parts: GroupedParts, packing: Packing, shape: tuple[int, int], cache: GroupedCache) -> None:
        self._parts, self._packing, self._cache = parts, packing, cache
        self._rows, self._columns = shape
        row_bytes = max(1, sum(part.nbytes for part in parts.stored) // self._rows)
        self._step = max(PANEL_BYTES // row_bytes // _TOGETHER, 1) * _TOGETHER
        self._panel_bytes = row_bytes * min(self._rows, self._step)
        self._held = max(self._panel_bytes, min(KEPT_BYTES, 4 * self._panel_bytes))

    def weight(self, name: str, precision: Precision) -> QuantizedWeight:
        """The matrix as the weight `name`."""
        shape, reader = (self._rows, self._columns), ExactRows(self.floats, self.blocks)
        return QuantizedWeight(name, shape, "F32", self._parts.stored, precision, lambda: reader, self._held)

    def floats(self, first: int, last: int) -> NDArray[np.uint8]:
        """The bytes of rows first … last - 1 as float32."""
        found = np.empty((last - first, self._columns), np.float32)
        for panel, rows, place in self._panels(first, last):
            found[place] = self._codes(panel, rows)
            decode_groups(found[place], panel.zeros[rows], panel.scales[rows], panel.groups)
        return found.view(np.uint8)

    def blocks(self, kind: str) -> RowReader | None:
        """A reader of rows as blocks of the type `kind`, None if that does not hold the same numbers.

        Reads the groups and zero points of the matrix. Raises ModelFileError.
        """
        if kind not in OFFSETS or self._columns % BLOCK or self._parts.scales.dtype != "F16":
            return None
        of_blocks = self._groups().reshape(-1, BLOCK)
        zeros = self._zeros(0, self._rows)
        lowest, highest = -int(zeros.max()), (1 << self._packing.bits) - 1 - int(zeros.min())
        fits = -OFFSETS[kind] <= lowest and highest < OFFSETS[kind]
        return partial(self._blocks, kind) if fits and (of_blocks == of_blocks[:, :1]).all() else None

    def _blocks(self, kind: str, first: int, last: int) -> NDArray[np.uint8]:
        found = []
        for panel, rows, _ in self._panels(first, last):
            zeros, of_blocks = panel.zeros[rows].astype(np.int8), panel.groups[::BLOCK]
            integers = self._codes(panel, rows).view(np.int8) - zeros.take(panel.groups, axis=1)
            found.append(encoded(integers, panel.scales[rows].take(of_blocks, axis=1), kind))
        return np.concatenate(found)

    def _panels(self, first: int, last: int) -> Iterator[tuple[_Panel, slice, slice]]:
        """The panels that hold rows first … last - 1: each with these rows in it, and their places among all."""
        for start in range(first // self._step * self._step, last, self._step):
            panel = self._cache.get((self._parts.codes.name, start), self._panel_bytes, partial(self._read, start))
            begin, end = max(first, start), min(last, start + self._step)
            yield panel, slice(begin - start, end - start), slice(begin - first, end - first)

    def _codes(self, panel: _Panel, rows: slice) -> NDArray[np.uint8]:
        """The integers of some rows of a panel, as they are stored."""
        each = self._packing.rows_in_word
        words = panel.codes[:, rows.start // each : -(-rows.stop // each)]
        skipped = rows.start % each
        return self._packing.codes(words)[skipped : skipped + rows.stop - rows.start, : self._columns]

    def _read(self, start: int) -> _Panel:
        """The panel that begins at row `start`."""
        parts, each = self._parts, self._packing.rows_in_word
        last = min(start + self._step, self._rows)
        codes = _columns(parts.codes, start // each, -(-last // each)).view("<u4")
        zeros = self._zeros(start, last)
        scales = as_float32(_columns(parts.scales, start, last), parts.scales.dtype)
        by_row = np.ascontiguousarray(scales.T)
        check_finite(parts.scales, by_row, start, "row", "group")
        return _Panel(codes, np.ascontiguousarray(zeros.T.astype(np.float32)), by_row, self._groups())

    def _zeros(self, first: int, last: int) -> NDArray[np.uint8]:
        """The zero points [groups, rows] of rows first … last - 1, of which the first begins a word."""
        stored, bits = self._parts.zeros, self._packing.bits
        end = min(-(-last // _TOGETHER) * bits, stored.shape[1])
        words = _columns(stored, first // _TOGETHER * bits, end).view("<u4")
        return self._packing.zeros(words)[:, : last - first]

    def _groups(self) -> NDArray[np.intp]:
        """The group of each column."""
        stored, count = self._parts.groups, self._parts.scales.shape[0]
        if stored is None:
            return np.arange(self._columns) // self._parts.group_size
        groups = read_bytes(stored.file, stored.offset, stored.nbytes).view("<i4")
        wrong = (groups < 0) | (groups >= count)
        if wrong.any():
            column = int(wrong.argmax())
            where = f"tensor {printable(stored.name)}, column {column}: names group {groups[column]}"
            fail(stored.file, f"{where} of {count}; get a whole copy of the model")
        return groups.astype(np.intp)


def _columns(tensor: StoredTensor, first: int, last: int) -> NDArray[np.uint8]:
    """Columns first … last - 1 of a stored matrix, as the bytes of each of its rows."""
    rows, columns = tensor.shape
    width = tensor.width
    return read_pieces(tensor.file, tensor.offset + first * width, (last - first) * width, columns * width, rows)


def decode_groups(codes: Floats, zeros: Floats, scales: Floats, groups: NDArray[np.intp]) -> None:
    """Replace codes [rows, columns] by weights. Zeros and scales are [rows, groups]; `groups` has that of a column."""
    codes -= zeros.take(groups, axis=1)
    with np.errstate(over="ignore"):  # the encoder refuses Inf, naming row and column
        codes *= scales.take(groups, axis=1)
