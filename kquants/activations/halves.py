"""Operations that both ways to quantize 256 activations share: on 16 vectors, each a half of a block of 32."""

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from kquants.formats.packed_bytes import Value
from kquants.simd import I32, all_f32, at, larger, pointer, reduce_each, shuffle

_BYTES = ir.VectorType(ir.IntType(8), 16)

_WHOLE = 1.5 * 2.0**23
"""A float32 so large that it has no fraction: adding a value rounds it to the nearest integer, ties to even."""


def largest_of_blocks(b: ir.IRBuilder, sizes: list[Value]) -> Value:
    """The largest of the 32 values of each block, in the lanes of both its halves."""
    more = partial(larger, b)
    largest = reduce_each(b, [more(x, y) for x, y in zip(sizes[::2], sizes[1::2], strict=True)], more)
    largest = more(largest, shuffle(b, largest, largest, [lane ^ 8 for lane in range(16)]))
    return shuffle(b, largest, largest, [lane // 2 for lane in range(16)])


def of_both(b: ir.IRBuilder, halves: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Both halves of a block combined, in the lanes of both."""
    return combine(halves, shuffle(b, halves, halves, [lane ^ 1 for lane in range(16)]))


def store_scaled(b: ir.IRBuilder, values: list[Value], scales: Value, address: Value) -> list[Value]:
    """Store vector i times lane i of the scales, rounded, as int8, all side by side; and return the whole float32.

    They must fit; of others, and of NaN, any byte is stored.
    """
    wholes, large = [], all_f32(_WHOLE)
    for i, v in enumerate(values):
        raised = b.fadd(b.fmul(v, shuffle(b, scales, scales, [i] * 16)), large)
        # The lowest byte of a float that large is that of the whole number.
        lowest = b.trunc(b.bitcast(raised, I32.vector), _BYTES)
        b.store(lowest, pointer(b, at(b, address, 16 * i), _BYTES), align=1)
        wholes.append(b.fsub(raised, large))
    return wholes
