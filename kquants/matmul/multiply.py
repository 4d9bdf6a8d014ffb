"""A super-block of a tile times rows of x: exact integer dot products, then the scales.

What a format yields (`kquants.formats.pieces`) either meets a few rows of x at once (decode), or it is stored, for many
rows of x (prefill): see `kquants.matmul.unpacked`.
"""

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kquants.activations.super_quantized import MINUS_X
from kquants.compiler.cpu import has, level_once, lowering
from kquants.formats.pieces import BLOCK_WEIGHTS, NOTHING, Format, Part, Values, Whole, lowered
from kquants.formats.quads import Value
from kquants.formats.tiles import Tile, tile_at
from kquants.formats.winograd import STEPS, both_sides, by_winograd
from kquants.layout import X_GROUP
from kquants.matmul.pairs import is_in_pairs, multiply_pairs
from kquants.matmul.parts import Spread
from kquants.matmul.requests import Requests, asks_row_by_row, beyond, decode_ahead, moved
from kquants.matmul.row_by_row import is_row_by_row, multiply_rows
from kquants.matmul.scaling import Scaling, scaling_of, units_of
from kquants.matmul.super_blocks import IntegerScales
from kquants.matmul.unpacked import FACTORS_AT, U_AT, UNIT_SCALES, has_factors, is_widened, load_scales, weight_bytes
from kquants.simd import F32, I8_64, I32, as_tuple, at, define, load, of_tuple, pointer, store_vectors, times
from kquants.simd.dot2 import Dot2
from kquants.simd.dot4 import TAKES_BYTES, start_dot4
from kquants.simd.dot_accumulator import DotAccumulator

_WIDE = lowering() == "AVX-512 VNNI"

TOGETHER = 8 if has("avx512f") else 4 if lowering() == "AVX2" else 2
"""Rows of x times tiles of W that share a pass over unpacked weights: as many as the registers hold sums for, with
their dot products. With AVX2 they hold the latter alone, yet a Zen 4 multiplies 3 to 8 % faster so than by two rows."""

TILES = 2 if _WIDE else 1
"""Tiles of W that do, at most. A Zen 5 loads twice in a cycle and multiplies twice: one tile and 8 rows of x take 9
loads for 8 products, two tiles and 4 rows take 6."""

_INT = ir.IntType(32)


# --- a few rows of x: decode -----------------------------------------------------------------------------------


def multiply_tile(fmt: Format, rows: int, parts: int) -> Any:
    """An operation: add the products of a super-block with a few rows of x to the sums of the 16 rows of W.

    Or, with several `parts`, to those of 16 parts of rows; x then has the words of its parts side by side (`Spread`).

    Arguments: sums (a tuple), the address of the super-block, bytes between rows, from where on to ask for the next
    tile, the end of the share of W and how far from there to read on, the 32 · blocks values of x, what belongs to
    them.
    """
    sums_type, scaling = types.UniTuple(F32, rows), scaling_of(fmt)

    @define(sums_type, sums_type, *[types.int64] * 7)
    def multiply(
        b: ir.IRBuilder,
        y: Value,
        w: Value,
        stride: Value,
        next_tile: Value,
        end: Value,
        onward: Value,
        x: Value,
        x_scales: Value,
    ) -> Value:
        all_x, all_scales = (
            [Spread(b, p, parts).at(scaling.X_GROUP_BYTES * t) for t in range(rows)] for p in (x, x_scales)
        )
        before = of_tuple(b, y)
        sums, scales, whole = [scaling.begin(b, v) for v in before], list[Values](), NOTHING
        asked = moved(b, beyond(b, next_tile, decode_ahead(fmt, parts)), end, onward)
        tile = tile_at(b, w, stride, fmt.BLOCK_BYTES)
        row_by_row = tile.rows if asks_row_by_row() else ()
        requests = Requests(b, fmt.BLOCK_BYTES, asked, level_once(), turns=8 * fmt.BLOCKS, rows=row_by_row)
        if is_row_by_row(fmt, rows, parts):
            sums[0], whole = multiply_rows(b, tile, all_x[0], all_scales[0], requests)
        elif is_in_pairs(fmt, rows, parts):
            sums[0], scales, whole = multiply_pairs(b, fmt, tile, sums[0], all_x[0], all_scales[0], requests)
        else:
            scales, whole = _add_products(b, fmt, tile, sums, all_x, all_scales, requests)
        requests.end()
        return as_tuple(b, list(scaling.end(b, sums, before, scales, lambda: whole, all_scales)))

    return multiply


def _add_products(
    b: ir.IRBuilder,
    fmt: Format,
    tile: Tile,
    sums: list[Value],
    all_x: list[Spread],
    all_scales: list[Spread],
    requests: Requests,
) -> tuple[list[Values], Values]:
    """Add the products of a super-block to the sums; its scales, and those of the whole."""
    scaling, dots, raised = scaling_of(fmt), dict[tuple[int, int], list[DotAccumulator]](), set[tuple[int, int]]()
    scales, whole = list[Values](), NOTHING
    for piece in fmt.unpack(tile):
        if isinstance(piece, Part):
            unit, span = divmod(piece.block * fmt.SPANS + piece.half * (fmt.SPANS - 1), scaling.SPANS)
            if (unit, span) not in dots:
                dots[unit, span] = [scaling.start(b, p, unit, span) for p in all_scales]
            first = 32 * piece.block + 16 * piece.half
            u = piece.u
            if piece.in_place and TAKES_BYTES:
                raised.add((unit, span))
                u = piece.in_place
            for k, vector in enumerate(u.vectors):
                _add(dots[unit, span], vector, _fours(b, all_x, first + 4 * k))
                requests.turn()
        elif isinstance(piece, Whole):
            whole = piece.values
        else:
            scales.append(piece.values)
            spans = [(piece.unit, span) for span in range(scaling.SPANS)]
            totals = [
                [lowered(b, dot.total()) if span in raised else dot.total() for dot in dots[span]] for span in spans
            ]
            for t, of_row in enumerate(zip(*totals, strict=True)):
                sums[t] = scaling.add(b, sums[t], list(of_row), scales[-1], all_scales[t], piece.unit)
    return scales, whole


def _fours(b: ir.IRBuilder, rows: list[Spread], offset: int) -> list[Value]:
    """Of each row of x four bytes for each lane."""
    return [b.bitcast(row.at(offset).load(_INT), I8_64.vector) for row in rows]


def _add(dots: list[DotAccumulator], u: Value, fours: list[Value]) -> None:
    """Add to each sum the products of weights with four bytes of a row of x."""
    for dot, four in zip(dots, fours, strict=True):
        dot.add(u, four)


# --- many rows of x: prefill ---------------------------------------------------------------------------


def _sums_type(scaling: Scaling, tiles: int, rows: int) -> Any:
    """Sums of tiles, one after the other, with some rows of x each."""
    return types.UniTuple(scaling.SUMS, tiles * rows)


def multiply_unit(fmt: Format, tiles: int, tile_bytes: int) -> Any:
    """An operation: add the products of an unpacked unit of some tiles with TOGETHER // tiles rows of x to their sums.

    Arguments: sums (a tuple), where the first tile's weights and its scales lie (each next tile's `tile_bytes` further
    on), the super-block's x (each next row's `bytes_of_x` further on), what belongs to that, the unit.
    """
    scaling, rows, size = scaling_of(fmt), TOGETHER // tiles, weight_bytes(fmt)
    sums_type = _sums_type(scaling, tiles, rows)
    span_weights, span = size * BLOCK_WEIGHTS // fmt.SPANS, size * 32 // fmt.SPANS
    # Side by side, spans have products enough in flight to hide how long one takes. Others than VNNI keep int16 beside
    # the sums, for which there are no registers then.
    together = scaling.SPANS if _WIDE else 1

    @define(sums_type, sums_type, *[types.int64] * 5)
    def multiply(
        b: ir.IRBuilder, sums: Value, weights: Value, scales: Value, x: Value, x_scales: Value, unit: Value
    ) -> Value:
        weights = at(b, weights, times(b, unit, span_weights * scaling.SPANS))
        x = at(b, x, times(b, unit, span * scaling.SPANS))
        all_x = [Spread(b, x).at(bytes_of_x(fmt) * t) for t in range(rows)]
        all_scales = [Spread(b, x_scales).at(scaling.X_GROUP_BYTES * t) for t in range(rows)]
        unit_scales = at(b, scales, times(b, unit, UNIT_SCALES))
        if by_winograd(fmt):
            scaled = IntegerScales(fmt)
            return _add_by_winograd(b, scaled, tiles, tile_bytes, sums, weights, unit_scales, all_x, all_scales, unit)
        if has_factors(fmt):  # and TILES is 1
            return _add_scaled(b, fmt, sums, weights, at(b, unit_scales, FACTORS_AT), all_x, all_scales, unit)

        def start(x: Spread, i: int) -> DotAccumulator:
            return Dot2(b, ir.Constant(I32.vector, None)) if is_widened(fmt) else scaling.start(b, x, unit, i)

        totals = list[list[list[Value]]]()  # [span][tile][row of x]
        for first in range(0, scaling.SPANS, together):
            spans = range(first, first + together)
            dots = [[[start(x, i) for x in all_scales] for _ in range(tiles)] for i in spans]
            for k in range(0, span_weights, 64):
                for i, of_span in zip(spans, dots, strict=True):
                    fours = _fours(b, all_x, span * i + k // 16)
                    for tile, of_tile in enumerate(of_span):
                        to_weights = at(b, weights, tile_bytes * tile + span_weights * i + k)
                        _add(of_tile, load(b, to_weights, I8_64.vector), fours)
            totals += [[[dot.total() for dot in of_tile] for of_tile in of_span] for of_span in dots]
        for tile in range(tiles):
            of_unit = load_scales(b, fmt, at(b, scales, tile_bytes * tile), unit, scaling.SUMS)
            for t in range(rows):
                place, of_row = rows * tile + t, [of_span[tile][t] for of_span in totals]
                added = scaling.add(b, b.extract_value(sums, place), of_row, of_unit, all_scales[t], unit)
                sums = b.insert_value(sums, added, place)
        return sums

    return multiply


def _add_scaled(
    b: ir.IRBuilder,
    fmt: Format,
    sums: Value,
    weights: Value,
    factors: Value,
    x: list[Spread],
    x_scales: list[Spread],
    unit: Value,
) -> Value:
    """The sums of rows of x with the products of a tile's unit, which come to them scaled."""
    scaling, span_weights = IntegerScales(fmt), BLOCK_WEIGHTS // fmt.SPANS
    for i in range(scaling.SPANS):
        before = zip(of_tuple(b, sums), x_scales, strict=True)
        dots = [scaling.start_scaled(b, y, factors, row, unit, i) for y, row in before]
        for k in range(span_weights * i, span_weights * (i + 1), 64):
            _add(dots, load(b, at(b, weights, k), I8_64.vector), _fours(b, x, k // 16))
        sums = as_tuple(b, [dot.total() for dot in dots])
    return sums


def _add_by_winograd(
    b: ir.IRBuilder,
    scaling: IntegerScales,
    tiles: int,
    tile_bytes: int,
    sums: Value,
    weights: Value,
    unit_scales: Value,
    x: list[Spread],
    x_scales: list[Spread],
    unit: Value,
) -> Value:
    """The sums of rows of x with the products of a unit of some tiles, see `kquants.formats.winograd`."""
    rows = len(x)
    for i in range(scaling.SPANS):
        # An int16, and above it what follows: only the lower half of sums counts.
        minus_x = [row.at(MINUS_X + 2 * i, times(b, unit, 4)).load(_INT) for row in x_scales]
        dots = list[list[DotAccumulator]]()
        for tile in range(tiles):
            u = load(b, at(b, unit_scales, tile_bytes * tile + U_AT + 64 * i), I32.vector)
            dots.append([start_dot4(b, b.sub(v, u)) for v in minus_x])
        for step in STEPS:
            fours = [_fours(b, x, 32 * i + 4 * k) for k in step]
            for tile, of_tile in enumerate(dots):
                block = at(b, weights, tile_bytes * tile + BLOCK_WEIGHTS * i)
                words = [load(b, at(b, block, 64 * k), I8_64.vector) for k in step]
                for dot, *of_row in zip(of_tile, *fours, strict=True):
                    dot.add(*both_sides(b, words, of_row))
        for t, row in enumerate(x_scales):
            for tile, of_tile in enumerate(dots):
                place, factors = rows * tile + t, at(b, unit_scales, tile_bytes * tile + FACTORS_AT)
                before = b.extract_value(sums, place)
                added = scaling.add_scaled(b, before, of_tile[t].total(), factors, row, unit, i)
                sums = b.insert_value(sums, added, place)
    return sums


def bytes_of_x(fmt: Format) -> int:
    """Bytes from a row of x that `multiply_unit` meets to the next."""
    return 2 * X_GROUP if is_widened(fmt) else scaling_of(fmt).X_GROUP_BYTES


@define(types.none, *[types.int64] * 2)
def widen_x(b: ir.IRBuilder, x: Value, to: Value) -> None:
    """Store the X_GROUP int8 at x as int16."""
    for i in range(0, X_GROUP, 64):
        v = b.sext(load(b, at(b, x, i), I8_64.vector), ir.VectorType(ir.IntType(16), 64))
        b.store(v, pointer(b, at(b, to, 2 * i), v.type), align=64)


def begin_and_end(fmt: Format, tiles: int, tile_bytes: int) -> tuple[Any, Any]:
    """Two operations on the y of some tiles and TOGETHER // tiles rows of x: the sums to begin with, and store y.

    Arguments: (the first tile's y, bytes to the next tile's), and (sums, y, bytes to the next tile's, the first tile's
    scales, what belongs to the rows of x). Each next tile's scales are `tile_bytes` further on.
    """
    scaling, units, rows = scaling_of(fmt), units_of(fmt), TOGETHER // tiles
    sums_type = _sums_type(scaling, tiles, rows)

    def place(b: ir.IRBuilder, y: Value, y_bytes: Value, tile: int, t: int) -> Value:
        return at(b, y, 64 * t, times(b, y_bytes, tile))

    @define(sums_type, *[types.int64] * 2)
    def begin(b: ir.IRBuilder, y: Value, y_bytes: Value) -> Value:
        places = [place(b, y, y_bytes, tile, t) for tile in range(tiles) for t in range(rows)]
        return as_tuple(b, [scaling.begin(b, load(b, to_y, F32.vector)) for to_y in places])

    @define(types.none, sums_type, *[types.int64] * 4)
    def end(b: ir.IRBuilder, sums: Value, y: Value, y_bytes: Value, scales: Value, x_scales: Value) -> None:
        for tile in range(tiles):
            of_tile = at(b, scales, tile_bytes * tile)
            of_units = (load_scales(b, fmt, of_tile, unit, scaling.SUMS) for unit in range(units))
            whole = partial(load_scales, b, fmt, of_tile, units, F32)
            places = [place(b, y, y_bytes, tile, t) for t in range(rows)]
            before = (load(b, to_y, F32.vector) for to_y in places)
            totals = [b.extract_value(sums, rows * tile + t) for t in range(rows)]
            x = [Spread(b, x_scales).at(scaling.X_GROUP_BYTES * t) for t in range(rows)]
            for to_y, v in zip(places, scaling.end(b, totals, before, of_units, whole, x), strict=True):
                store_vectors(b, to_y, [v])

    return begin, end


def sums_of(rows: int) -> tuple[Any, Any]:
    """Operations on the sums of `rows` rows of x: (zeros, store 64 bytes each at an address)."""
    sums_type = types.UniTuple(F32, rows)

    @define(sums_type)
    def zeros(b: ir.IRBuilder) -> Value:
        return ir.Constant(ir.ArrayType(F32.vector, rows), None)

    @define(types.none, types.int64, sums_type)
    def store_sums(b: ir.IRBuilder, address: Value, sums: Value) -> None:
        store_vectors(b, address, [b.extract_value(sums, t) for t in range(rows)])

    return zeros, store_sums
