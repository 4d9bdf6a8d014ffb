"""How one CPU multiplies by one format: which way of decode, which layout for prefill, which split-K.

The choice is made here, once; all kernels are built from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kquants.formats.quantized import QUANTIZED
from kquants.formats.unpacking import GROUP, Format, GroupedBlocks, Values, has_integer_scales, is_signed
from kquants.formats.winograd import has_room_for_winograd
from kquants.layout import SPLIT_K_ROWS, UNPACKED_BYTES
from kquants.matmul.int16_layouts import AmxInt16Layout, Int16Layout
from kquants.matmul.layouts import AmxByteLayout, ByteLayout
from kquants.matmul.row_by_row import multiply_row_by_row
from kquants.matmul.row_pairs import multiply_row_pairs
from kquants.matmul.row_per_lane import multiply_row_per_lane
from kquants.matmul.scaled_layout import ScaledLayout
from kquants.matmul.scaling import Scaling, scaling_of
from kquants.matmul.winograd_layout import WinogradLayout
from kquants.tuning import Distances, Tuning

DecodeWay = Callable[..., tuple[list[Values], Values]]
"""`multiply_row_per_lane`, or a function of the same arguments."""


@dataclass(frozen=True)
class Strategy:
    """The choices for one format and one CPU."""

    fmt: Format
    tuning: Tuning
    decode_rows: int
    """Rows of x, at most, that are multiplied straight from W."""
    one_row: DecodeWay
    """The way for one row of x by whole rows of W. Split rows, and more rows of x, use `multiply_row_per_lane`."""
    layout: type[ByteLayout]
    """How W is unpacked for more rows of x."""
    split_k: tuple[int, ...]
    """The parts of a large row of W, then of a very large one; empty: rows stay whole."""

    def __post_init__(self) -> None:
        assert not self.split_k or self.decode_rows <= SPLIT_K_ROWS, "scratch has no room for interleaved rows of x"
        assert self.layout(self.group, self.tuning).tile_bytes <= UNPACKED_BYTES, "scratch has no room for a tile"

    @property
    def scaling(self) -> Scaling:
        """How the products of sub-blocks become sums."""
        return scaling_of(self.fmt)

    @property
    def group(self) -> Format:
        """The format with GROUP blocks at once."""
        return GroupedBlocks(self.fmt) if self.has_rest else self.fmt

    @property
    def has_rest(self) -> bool:
        """Whether a row may end with fewer than GROUP blocks."""
        return self.fmt.BLOCKS != GROUP

    def decode_way(self, rows: int, parts: int) -> DecodeWay:
        """The way for `rows` rows of x, at most `decode_rows`, by rows of W in `parts` parts."""
        return self.one_row if rows == parts == 1 else multiply_row_per_lane

    def decode_prefetch(self, parts: int) -> Distances:
        """The distances of decode's prefetches beside rows of W in some parts."""
        tuning, bits = self.tuning, self.fmt.BITS
        usual = tuning.decode_prefetch_by_bits.get(bits, tuning.decode_prefetch)
        return tuning.decode_prefetch_split.get(bits, usual) if parts > 1 else usual


def strategy_of(name: str, tuning: Tuning) -> Strategy:
    """The strategy for a quantized format, by its name in `QUANTIZED`."""
    fmt: Any = QUANTIZED[name]
    layout = _layout_of(fmt, tuning)
    one_row: DecodeWay = multiply_row_per_lane
    if name in tuning.decode_row_pairs:
        one_row = multiply_row_pairs
    elif name in tuning.decode_row_by_row:
        one_row = multiply_row_by_row
    rows = tuning.decode_rows_winograd if layout is WinogradLayout else tuning.decode_rows
    return Strategy(fmt, tuning, rows, one_row, layout, tuning.split_k.get(fmt.BITS, ()))


def _layout_of(fmt: Format, tuning: Tuning) -> type[ByteLayout]:
    if tuning.amx:
        return AmxInt16Layout if has_integer_scales(fmt) else AmxByteLayout
    if tuning.winograd and has_room_for_winograd(fmt):
        return WinogradLayout
    if tuning.prefill_via_int16 and is_signed(fmt):
        return Int16Layout
    return ScaledLayout if tuning.prefill_via_int16 and has_integer_scales(fmt) else ByteLayout
