"""Scores of a micro-tile of quantized queries with blocks of int8 keys."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.activations.quantized import MINUS_SUM, SUM_FACTOR
from kquants.attention.micro_tile import DECODE_QUERIES, broadcasts
from kquants.kv_layout import PAGE
from kquants.simd import F32, I8_64, I32, as_tuple, at_strides, define, fma, half_to_float, of_tuple, pointer
from kquants.simd.dot4 import SIGNED_OFFSET, start_dot4
from kquants.tuning import tuning

_INT, _LONG, _F16 = ir.IntType(32), ir.IntType(64), ir.VectorType(ir.IntType(16), 16)

KEYS = tuning().attention_q8_keys
"""Vectors of keys of a micro-tile of int8, which keeps integer sums besides."""


def add_key_block(fours: int) -> Any:
    """`(tile, keys, key scales, q, q scales, stride) -> tile`: add each query's dot products with a block of the keys.

    A block has 4 · `fours` values of each key; for every four of them it holds those of 16 · KEYS keys of the page.
    Each key has a float16 scale. Queries are quantized rows (see `kquants.activations.quantized`), `stride` bytes
    apart.
    """
    micro_tile = types.UniTuple(F32, DECODE_QUERIES * KEYS)

    @define(micro_tile, micro_tile, *[types.int64] * 5)
    def add(b: ir.IRBuilder, sums: Any, keys: Any, key_scales: Any, q: Any, q_scales: Any, stride: Any) -> Any:
        def load(address: Any, kind: Any) -> Any:
            return b.load(pointer(b, address, kind), align=1)

        begun = [ir.Constant(I32.vector, None)] * DECODE_QUERIES
        if SIGNED_OFFSET:
            assert SIGNED_OFFSET == SUM_FACTOR
            begun = broadcasts(b, b.add(q_scales, _LONG(MINUS_SUM)), stride, DECODE_QUERIES, _INT)
        dots = [start_dot4(b, start, signed=True) for start in begun for _ in range(KEYS)]
        for k in range(fours):
            row = at_strides(b, b.add(keys, _LONG(4 * PAGE * k)), _LONG(64), KEYS)
            shared = [load(a, I8_64.vector) for a in row]
            four_q = broadcasts(b, b.add(q, _LONG(4 * k)), stride, DECODE_QUERIES, _INT)
            pairs = [(v, b.bitcast(four, I8_64.vector)) for four in four_q for v in shared]
            for dot, (v, four) in zip(dots, pairs, strict=True):
                dot.add(v, four)
        d_keys = [half_to_float(b, load(a, _F16)) for a in at_strides(b, key_scales, _LONG(32), KEYS)]
        d = [b.fmul(d_key, d_q) for d_q in broadcasts(b, q_scales, stride, DECODE_QUERIES) for d_key in d_keys]
        totals = [b.sitofp(dot.total(), F32.vector) for dot in dots]
        return as_tuple(
            b, [fma(b, total, scale, s) for total, scale, s in zip(totals, d, of_tuple(b, sums), strict=True)]
        )

    return add
