"""Matrix tiles of Intel's AMX: 16 rows of x times 16 rows of W in one instruction, for prefill.

The same expressions as in `kquants.products.blocks` and `kquants.products.super_blocks`, and the same bits. One
instruction makes the int32 dot products of a span for 16 × 16 rows, but it takes its time, and so do the way of the
products through memory and the arithmetic that follows. They overlap when they are about different spans: while span k
is multiplied, the products of span k - 1 are stored and those of span k - 4, or of a pair that ends there, are scaled.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
"""

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.cpu import has
from kquants.formats.pieces import BLOCK_WEIGHTS, Format, Values
from kquants.formats.quads import Value
from kquants.layout import DOTS_BYTES
from kquants.products.parts import Spread
from kquants.products.scaling import scaling_of
from kquants.products.unpacked import load_scales
from kquants.simd import F32, I32, at, call, define, load, pointer, store_vectors

AMX = all(has(feature) for feature in ("amx-tile", "amx-int8", "avx512vnni"))
"""Whether this CPU has them, and this process may use them."""

_BYTE, _LONG = ir.IntType(8), ir.IntType(64)
_X, _W, _DOTS = 0, 1, (2, 3)
"""Tile registers: rows of x, weights, products, which take turns. A CPU renames them, so that what is loaded next need
not wait; but while the other thread of its core is busy, it has few to do that with, and a program that names more of
them is slower: with two, two and four registers an Emerald Rapids multiplied Q4_K at 0.8 of the speed, Q8_0 at 0.75."""

_DELAY = 4
"""Spans after which products are scaled: those that were only just stored cannot be loaded yet. With 2, Q6_K is
multiplied 7 to 12 % slower, Q8_0 5 %, and Q4_K as fast; 5 gain nothing."""

_DOT_BYTES = 16 * 64
_PLACES = DOTS_BYTES // _DOT_BYTES
"""Spans whose products are kept: pairs of spans wait for their second, so five would do."""

_PALETTE, _ROW_BYTES, _ROW_COUNTS = 0, 16, 48
"""Where things lie in the 64 bytes of a tile configuration: a palette number, 16 × uint16, 16 × uint8."""


def configure(fmt: Format, rows: int) -> Any:
    """An operation: set up this thread's tile registers for `rows` rows of x; it takes 64 bytes of scratch."""
    span = 32 // fmt.SPANS
    shapes = {_X: (span, rows), _W: (64, span // 4)} | dict.fromkeys(_DOTS, (64, rows))
    configuration = bytearray(64)
    configuration[_PALETTE] = 1
    for register, (row_bytes, count) in shapes.items():
        configuration[_ROW_BYTES + 2 * register] = row_bytes
        configuration[_ROW_COUNTS + register] = count

    @define(types.none, types.int64)
    def set_up(b: ir.IRBuilder, address: Value) -> None:
        values = ir.Constant(ir.VectorType(_BYTE, 64), list(configuration))
        b.store(values, pointer(b, address, values.type), align=1)
        _tile(b, "ldtilecfg", pointer(b, address, _BYTE))

    return set_up


@define(types.none)
def release(b: ir.IRBuilder) -> None:
    """Let go of the tile registers: the system then has less to save of this thread."""
    _tile(b, "tilerelease")


def multiply_rows(fmt: Format, rows: int, blocks: int, scales_at: int) -> Any:
    """An operation: add the products of `blocks` unpacked blocks (signed weights) with `rows` rows of x to their sums.

    Arguments: address of the sums, weights (whose scales lie `scales_at` bytes on), x, what belongs to these blocks of
    x, and scratch of DOTS_BYTES.
    """
    scaling = scaling_of(fmt)

    @define(types.none, *[types.int64] * 5)
    def multiply(b: ir.IRBuilder, sums: Value, weights: Value, x: Value, x_scales: Value, scratch: Value) -> None:
        steps, scales = blocks * fmt.SPANS, at(b, weights, scales_at)
        dots = [at(b, scratch, _DOT_BYTES * i) for i in range(_PLACES)]
        y = [at(b, sums, 64 * t) for t in range(rows)]
        of_rows = [Spread(b, at(b, x_scales, scaling.X_GROUP_BYTES * t)) for t in range(rows)]
        totals = [scaling.begin(b, load(b, to_y, F32.vector)) for to_y in y]
        of_units: list[Values] = []
        for step in range(steps + _DELAY):
            if step < steps:
                to_x, to_weights = at(b, x, 32 // fmt.SPANS * step), at(b, weights, BLOCK_WEIGHTS // fmt.SPANS * step)
                _multiply(b, fmt, step, to_x, _LONG(scaling.X_GROUP_BYTES), to_weights)
            if 0 < step <= steps:
                register, place = _DOTS[(step - 1) % len(_DOTS)], dots[(step - 1) % _PLACES]
                _tile(b, "tilestored64", _BYTE(register), pointer(b, place, _BYTE), _LONG(64))
            ready = step - _DELAY + 1
            if ready > 0 and ready % scaling.SPANS == 0:
                unit, spans = ready // scaling.SPANS - 1, range(ready - scaling.SPANS, ready)
                of_units.append(load_scales(b, fmt, scales, unit, scaling.SUMS))
                for t in range(rows):
                    of_row = [load(b, at(b, dots[i % _PLACES], 64 * t), I32.vector) for i in spans]
                    totals[t] = scaling.add(b, totals[t], of_row, of_units[unit], of_rows[t], unit)
        whole = partial(load_scales, b, fmt, scales, len(of_units), F32)
        before = (load(b, to_y, F32.vector) for to_y in y)
        for to_y, v in zip(y, scaling.end(b, totals, before, of_units, whole, of_rows), strict=True):
            store_vectors(b, to_y, [v])

    return multiply


def _multiply(b: ir.IRBuilder, fmt: Format, step: int, x: Value, stride: Value, weights: Value) -> None:
    x_tile, w_tile, dots = (_BYTE(register) for register in (_X, _W, _DOTS[step % len(_DOTS)]))
    _tile(b, "tileloadd64", x_tile, pointer(b, x, _BYTE), stride)
    _tile(b, "tileloadd64", w_tile, pointer(b, weights, _BYTE), _LONG(64))
    _tile(b, "tilezero", dots)
    _tile(b, "tdpbssd" if fmt.OFFSET else "tdpbsud", dots, x_tile, w_tile)


def _tile(b: ir.IRBuilder, name: str, *values: Value) -> None:
    call(b, f"llvm.x86.{name}", ir.VoidType(), *values)
