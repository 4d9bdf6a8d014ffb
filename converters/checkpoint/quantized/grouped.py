"""Matrices of integers stored by columns, in which a group of columns has a scale and a zero point for each row.

GPTQ and AWQ store a matrix of `rows` x `columns` so, transposed, and differ in how words hold the integers:

    codes    I32    integers of 2 to 8 bits, packed        see `Packing`
    zeros    I32    [groups, words], packed along rows     integers of as many bits
    scales   F16    [groups, rows], or BF16, or F32
    groups   I32    [columns]                              the group of each column, not always there

    weight = scale · (code - zero), which float32 holds exactly where scales are F16 or BF16
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.panels import KEPT_BYTES, PANEL_BYTES, PanelCache
from converters.checkpoint.quantized.small import as_float32, check_finite
from converters.checkpoint.quantized.weight import Grid, QuantizedWeight
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes, read_pieces
from edgellm.fmt import printable

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]

_TOGETHER = 32
"""Panels begin at multiples of so many rows, whose zero points fill whole words at any number of bits."""


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


class GroupedReader:
    """A reader of rows as float32 of the matrix in `parts`, whose shape is (rows, columns).

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

    def __call__(self, first: int, last: int) -> NDArray[np.uint8]:
        """The bytes of rows first … last - 1."""
        found = np.empty((last - first, self._columns), np.float32)
        for start in range(first // self._step * self._step, last, self._step):
            panel = self._cache.get((self._parts.codes.name, start), self._panel_bytes, partial(self._read, start))
            begin, end = max(first, start), min(last, start + self._step)
            self._decode(panel, begin - start, end - start, found[begin - first : end - first])
        return found.view(np.uint8)

    def weight(self, name: str, grid: Grid) -> QuantizedWeight:
        """The matrix as the weight `name`."""
        shape = (self._rows, self._columns)
        return QuantizedWeight(name, shape, "F32", self._parts.stored, grid, lambda: self, self._held)

    def _decode(self, panel: _Panel, first: int, last: int, out: Floats) -> None:
        """Write rows first … last - 1 of a panel to `out`."""
        each = self._packing.rows_in_word
        words = panel.codes[:, first // each : -(-last // each)]
        skipped = first % each
        out[:] = self._packing.codes(words)[skipped : skipped + last - first, : self._columns]
        decode_groups(out, panel.zeros[first:last], panel.scales[first:last], panel.groups)

    def _read(self, start: int) -> _Panel:
        """The panel that begins at row `start`."""
        parts, bits, each = self._parts, self._packing.bits, self._packing.rows_in_word
        last = min(start + self._step, self._rows)
        codes = _columns(parts.codes, start // each, -(-last // each)).view("<u4")
        end = -(-last // _TOGETHER) * bits
        words = _columns(parts.zeros, start // _TOGETHER * bits, min(end, parts.zeros.shape[1])).view("<u4")
        zeros = self._packing.zeros(words)[:, : last - start]
        scales = as_float32(_columns(parts.scales, start, last), parts.scales.dtype)
        by_row = np.ascontiguousarray(scales.T)
        check_finite(parts.scales, by_row, start, "row", "group")
        return _Panel(codes, np.ascontiguousarray(zeros.T.astype(np.float32)), by_row, self._groups())

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
