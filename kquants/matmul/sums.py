"""Sums of products in scratch: 16 for a row of x and a tile of W, and the register tiles of float weights.

Float weights have sums of 16 lanes, of columns, for each of 16 rows of W and each row of x: [rows of x][16 rows of
W][16]. A register tile has the sums that registers hold at a time: W_ROWS rows of W times X_ROWS rows of x, in the
lanes of a register.
"""

from typing import Any

import numba as nb
from llvmlite import ir
from numba import types

from kquants.compiler.cpu import has
from kquants.compiler.decorators import Vector, inline
from kquants.layout import TILE_ROWS
from kquants.simd import (
    F32,
    VectorType,
    add_f32,
    as_tuple,
    at,
    define,
    load,
    load_f32x16,
    load_f32x16_part,
    of_tuple,
    pointer,
    shuffle,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
)
from kquants.tuning import tuning

REGISTER_LANES = 16 if has("avx512f") else 8 if has("avx") else 4
"""Lanes of a register."""

W_ROWS, X_ROWS = 4, tuning().float_x_rows
"""Rows of W and of x of a register tile."""

SUMS_BYTES = TILE_ROWS * 64
"""Bytes of the sums of a row of x."""

Register = VectorType("f32_register", ir.FloatType(), REGISTER_LANES)
Registers = types.UniTuple(Register, W_ROWS * X_ROWS)
"""A register tile: sums of the first row of W with each row of x, then those of the next."""


@inline
def sum_bytes(rows: int) -> int:
    """Bytes of the sums of a tile: rows of x are taken up to 16 at a time."""
    return 64 * (rows + 15 & ~15)


@inline
def clear(sums: int, end: int) -> None:
    """Zeros from one address to another."""
    for place in range(sums, end, 64):
        store_f32x16(place, splat_f32(nb.float32(0)))


@inline
def write_or_add(y: int, v: Vector, count: int, accumulate: int) -> None:
    """Write the first `count` lanes of v to y, or add them to y if `accumulate` is not 0."""
    if count == TILE_ROWS:
        store_f32x16(y, add_f32(load_f32x16(y), v) if accumulate else v)
    else:
        store_f32x16_part(y, add_f32(load_f32x16_part(y, count), v) if accumulate else v, count)


def _places(b: ir.IRBuilder, sums: Any) -> list[Any]:
    return [at(b, sums, SUMS_BYTES * t + 64 * r) for r in range(W_ROWS) for t in range(X_ROWS)]


@define(Registers)
def zero_registers(b: ir.IRBuilder) -> Any:
    """A register tile of zeros."""
    return as_tuple(b, [ir.Constant(Register.vector, None)] * (W_ROWS * X_ROWS))


@define(Registers, types.int64)
def load_registers(b: ir.IRBuilder, sums: Any) -> Any:
    """The register tile whose first sum begins at an address."""
    return as_tuple(b, [load(b, place, Register.vector) for place in _places(b, sums)])


@define(types.none, types.int64, Registers)
def store_registers(b: ir.IRBuilder, sums: Any, registers: Any) -> None:
    """Store a register tile at `sums`."""
    for place, v in zip(_places(b, sums), of_tuple(b, registers), strict=True):
        b.store(v, pointer(b, place, v.type), align=4 * REGISTER_LANES)


@inline
def whole_tiles(rows: int, of: int) -> int:
    """`rows` rounded up to whole register tiles of `of` rows."""
    return (rows + of - 1) // of * of


@define(F32, types.int64)
def totals(b: ir.IRBuilder, sums: Any) -> Any:
    """The sums of a row of x over their lanes, one for each row of W: added up as by `simd.reduce_lanes`."""
    vectors, width = [load(b, at(b, sums, 64 * r), F32.vector) for r in range(TILE_ROWS)], TILE_ROWS
    while width > 1:
        # Lanes in groups of `width`, each of one row: their first halves plus their second.
        half, groups = width // 2, range(0, 2 * TILE_ROWS, width)
        halves = [[g + i for g in groups for i in range(first, first + half)] for first in (0, half)]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [b.fadd(*(shuffle(b, x, y, lanes) for lanes in halves)) for x, y in pairs]
        width = half
    return vectors[0]
