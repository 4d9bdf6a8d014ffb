"""Activations quantized for formats with super-blocks: one scale for 256 values, a power of two for every 32.

Rows of n float32 (n a multiple of 256) become groups of 256 int8 and what belongs to them. A group of all rows lies
side by side, so that a product finds them at constant distances:

    [n / 256][rows] of    byte  0               256   260                   276                   308
                                [ q0 q1 … q255  | D   | 2^e · block sums: 8 | 2^e · half sums: 16 |
                                                  f32   int16                 int16

                          byte  308      324             356                   420       436   448
                                | e: 8   | e, e: 8 pairs | -32 · half sums: 16 | -X: 8   | -   ]
                                  int16    int16           int32                 int16

where the sums are those of the q of each block of 32, and of each half of a block. Where products pass through int16
(`kquants.simd.dot4`), an int32 of these is two int16: of bytes 0 and 1 of the half's four words of four bytes, and of
bytes 2 and 3 (at most 32 · 8 · 127). X of each block, whose lower 16 bits these are, is explained in
`kquants.formats.winograd`, and left out where that is not used.

With AMX more than `Tuning.decode_rows` rows are multiplied as int16 (`kquants.formats.int16`), which lie behind the
groups of all; of a group itself AMX products read no more than the line of D:

    [n / 256][rows] of    byte  0                         256                        512
                                [ low bytes of 2^e · q    | high bytes of 2^e · q    ]

x = D · 2^e · q with D so that the largest e is 3, and the smallest e ≥ 0 of each block for which

    max|x| ≤ 127 · D · 2^e        and, over each half,        Σ|x| ≤ 1014 · D · 2^e

The second, which takes effect where all of a half are about as large as its largest, keeps the products of a half
with weights of at most 32 within int16 (`LARGEST_SUM`, with 8 for rounding). With powers of two, blocks of small values
lose little beside a block with a large one, and they cost nothing. A trained model of 13 M parameters
has a KL divergence of 7.0e-4 from unquantized activations so; with one scale for 256 14e-4, with a scale for every 32
4.8e-4. For Winograd's inner product magnitudes are at most 120 (`kquants.tuning.Tuning.activation_int8_max`), which
costs a tenth (on another text 5.9e-4 became 6.5e-4).

A super-block with an Inf or NaN, or where the magnitudes of a half add up to more than float32 holds, has D = NaN, so
that the result shows it; what else it has means nothing. One where 8D is below 1e-36 has q = 0.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kquants.activations.halves import largest_of_blocks, of_both, store_scaled
from kquants.compiler.decorators import inline
from kquants.formats.int16 import int16_bytes_of
from kquants.formats.packed_bytes import Value
from kquants.formats.winograd import minus_x
from kquants.layout import INT16_GROUP_BYTES, LARGEST_SUM, SUPER_GROUP_BYTES, X_GROUP
from kquants.simd import (
    F32,
    I8_64,
    I32,
    all_f32,
    at,
    call,
    define,
    larger,
    load,
    pointer,
    power_of_two,
    reduce_each,
    reduce_lanes,
    shuffle,
    splat,
)
from kquants.simd.dot2 import high_int16, low_int16
from kquants.simd.dot4 import VIA_INT16, start_dot4
from kquants.tuning import Tuning

_INT16, _FLOAT = ir.IntType(16), ir.FloatType()
_INT16S = ir.VectorType(_INT16, 32)

POWERS = 4
"""How many e there are: 0 … 3."""

BLOCK_SUMS, HALF_SUMS, EXPONENTS, EXPONENTS_TWICE, MINUS_HALF_SUMS, MINUS_X = 4, 20, 52, 68, 100, 164
"""Byte offsets behind the 256 int8 of a group."""

UNIT_OFFSET = 32
"""The offset by which the sums for weights with an offset are multiplied: that of most formats."""

_IN_ORDER = [4 * (half % 4) + half // 4 for half in range(16)]
"""The lane of each half, where `reduce_each` has combined the lanes of four vectors of 64 bytes."""

_EVEN, _ODD = range(0, 16, 2), range(1, 16, 2)

_ROUNDING = 8
"""The most that rounding adds to the sum of 16 magnitudes; one more is left for rounding of the float sum."""

_SMALLEST = 1e-36
"""1 / D overflows below 3e-39."""


def _needed(b: ir.IRBuilder, sizes: list[Value], sums: Value, activation_int8_max: int) -> Value:
    """The scale that each half needs at least, both halves of a block the same; given magnitudes and their sums."""
    largest = b.fmul(largest_of_blocks(b, sizes), all_f32(1 / activation_int8_max))
    sums = b.fmul(sums, all_f32(1 / (LARGEST_SUM - _ROUNDING - 1)))
    return larger(b, largest, of_both(b, sums, partial(larger, b)))


def _exponents(b: ir.IRBuilder, needed: Value, d: Value) -> Value:
    """e of each half, int32: how many of D, 2D and 4D are too small."""
    too_small = [b.fcmp_ordered(">", needed, b.fmul(splat(b, d), all_f32(2.0**e))) for e in range(POWERS - 1)]
    one, two, three = (b.zext(v, I32.vector) for v in too_small)
    return b.add(one, b.add(two, three))


def _store(b: ir.IRBuilder, address: Value, offset: int, v: Value, element: ir.IntType) -> None:
    v = b.trunc(v, ir.VectorType(element, v.type.count)) if element != v.type.element else v
    b.store(v, pointer(b, at(b, address, offset), v.type), align=1)


def _sums_of_halves(b: ir.IRBuilder, group: Value) -> Value:
    """Of 256 int8 the sum of each half of a block: int32, exact for any bytes."""
    fours = []
    for i in range(0, X_GROUP, 64):
        dot = start_dot4(b, ir.Constant(I32.vector, None), bits=1)
        dot.add(ir.Constant(I8_64.vector, [1] * 64), load(b, at(b, group, i), I8_64.vector))
        fours.append(dot.total())
    return _halves(b, fours, b.add)


def _halves(b: ir.IRBuilder, fours: list[Value], add: Callable[[Value, Value], Value]) -> Value:
    """The sum of the lanes of four vectors, for each half of a block."""
    sums = reduce_each(b, fours, add)
    return shuffle(b, sums, sums, _IN_ORDER)


def _blocks(b: ir.IRBuilder, halves: Value) -> Value:
    """The sum of both halves of each block."""
    return b.add(shuffle(b, halves, halves, _EVEN), shuffle(b, halves, halves, _ODD))


def _sums_of_words(b: ir.IRBuilder, group: Value) -> Value:
    """Two sums of each half: of bytes 0 and 1 of its words, and of bytes 2 and 3; 32 int16."""

    def pairs(address: Value) -> Value:
        both = load(b, address, _INT16S)
        eight = ir.Constant(_INT16S, [8] * 32)
        return b.bitcast(b.add(b.ashr(both, eight), b.ashr(b.shl(both, eight), eight)), I32.vector)

    def add(x: Value, y: Value) -> Value:
        return b.bitcast(b.add(b.bitcast(x, _INT16S), b.bitcast(y, _INT16S)), I32.vector)

    return b.bitcast(_halves(b, [pairs(at(b, group, 64 * i)) for i in range(4)], add), _INT16S)


def super_block_quantizer(tuning: Tuning) -> Any:
    """An operation: quantize 256 float32 at an address to the group at another."""

    @define(types.none, *[types.int64] * 2)
    def quantize_super_block(b: ir.IRBuilder, x: Value, group: Value) -> None:
        _quantize_super_block(b, x, group, tuning)

    return quantize_super_block


def _quantize_super_block(b: ir.IRBuilder, x: Value, group: Value, tuning: Tuning) -> None:
    record = at(b, group, X_GROUP)
    values = [load(b, at(b, x, 64 * i), F32.vector) for i in range(16)]
    sizes = [call(b, "llvm.fabs.v16f32", F32.vector, v) for v in values]
    sums = reduce_each(b, sizes, b.fadd)
    needed = _needed(b, sizes, sums, tuning.activation_int8_max)
    most = reduce_lanes(b, needed, partial(larger, b))
    d = b.fmul(most, _FLOAT(0.5 ** (POWERS - 1)))
    exponents = _exponents(b, needed, d)
    inverse = b.select(b.fcmp_ordered(">=", most, _FLOAT(_SMALLEST)), b.fdiv(_FLOAT(1.0), d), _FLOAT(0.0))
    # As precise as 1 / (D · 2^e): nothing here is denormal, as D is at most 3.4e38 / 120 / 8.
    store_scaled(b, values, b.fmul(splat(b, inverse), power_of_two(b, b.neg(exponents))), group)
    # The largest value may pass over NaN, but the sums keep it.
    finite = b.bitcast(b.fcmp_ordered("<", sums, all_f32(math.inf)), _INT16)
    is_finite = b.icmp_unsigned("==", finite, _INT16(-1))
    b.store(b.select(is_finite, d, _FLOAT(math.nan)), pointer(b, record, _FLOAT), align=1)
    if VIA_INT16:
        exact = _sums_of_words(b, group)
        words = b.bitcast(exact, I32.vector)
        halves = b.add(low_int16(b, words), high_int16(b, words))
    else:
        exact = halves = _sums_of_halves(b, group)
    e = shuffle(b, exponents, exponents, _EVEN)
    _store(b, record, EXPONENTS_TWICE, exponents, _INT16)
    _store(b, record, EXPONENTS, e, _INT16)
    _store(b, record, BLOCK_SUMS, b.shl(_blocks(b, halves), e), _INT16)
    _store(b, record, HALF_SUMS, b.shl(halves, exponents), _INT16)
    minus = b.mul(exact, ir.Constant(exact.type, [-UNIT_OFFSET] * exact.type.count))
    _store(b, record, MINUS_HALF_SUMS, minus, minus.type.element)
    if tuning.winograd:
        fours = [minus_x(b, load(b, at(b, group, i), I8_64.vector)) for i in range(0, X_GROUP, 64)]
        _store(b, record, MINUS_X, _blocks(b, _halves(b, fours, b.add)), _INT16)


@inline
def int16_place(n: int, rows: int, place: int) -> int:
    """Bytes from the first group of `rows` rows of n values to the int16 of group `place` of all."""
    return n // X_GROUP * rows * SUPER_GROUP_BYTES + place * INT16_GROUP_BYTES


@define(types.none, *[types.int64] * 2)
def store_int16(b: ir.IRBuilder, group: Value, to: Value) -> None:
    """Store 2^e · q of a quantized group: 256 low bytes, then 256 high ones."""
    for i in range(0, X_GROUP, 64):
        # Each exponent, of a half, belongs to eight int16.
        e = load(b, at(b, group, X_GROUP + EXPONENTS_TWICE + i // 8), ir.VectorType(_INT16, 4))
        powers = b.shl(ir.Constant(_INT16S, [1] * 32), shuffle(b, e, e, [lane // 8 for lane in range(32)]))
        low, high = int16_bytes_of(b, load(b, at(b, group, i), I8_64.vector), powers)
        _store(b, to, i, low, low.type.element)
        _store(b, to, X_GROUP + i, high, high.type.element)
