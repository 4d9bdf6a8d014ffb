"""Products of a bundle of quantized queries with blocks of int8 keys."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.activations.quantized import MINUS_OFFSET_SUM
from kquants.attention.lanes import QUERIES, broadcasts
from kquants.compiler.cpu import has
from kquants.kv_layout import PAGE
from kquants.simd import F32, I8_64, I32, as_tuple, at_strides, define, fma, half_to_float, of_tuple, pointer
from kquants.simd.dot4 import SIGNED_OFFSET, start_dot4

_INT, _LONG, _HALVES = ir.IntType(32), ir.IntType(64), ir.VectorType(ir.IntType(16), 16)

KEYS = 2 if has("avx512f") else 1
"""Vectors of keys of a bundle of int8: it has integer sums, too."""


def add_key_block(quads: int) -> Any:
    """`(bundle, keys, key scales, q, q scales, stride) -> bundle`: for each query, its products with a block more.

    A block is 4 · `quads` values of each key: for each four, 16 · KEYS keys of PAGE; with a float16 scale for each key.
    The queries are quantized rows (see `kquants.activations.quantized`), `stride` bytes apart.
    """
    bundle = types.UniTuple(F32, QUERIES * KEYS)

    @define(bundle, bundle, *[types.int64] * 5)
    def add(b: ir.IRBuilder, sums: Any, keys: Any, key_scales: Any, q: Any, q_scales: Any, stride: Any) -> Any:
        def load(address: Any, kind: Any) -> Any:
            return b.load(pointer(b, address, kind), align=1)

        begun = [ir.Constant(I32.vector, None)] * QUERIES
        if SIGNED_OFFSET:
            begun = broadcasts(b, b.add(q_scales, _LONG(MINUS_OFFSET_SUM)), stride, QUERIES, _INT)
        dots = [start_dot4(b, start, signed=True) for start in begun for _ in range(KEYS)]
        for k in range(quads):
            row = at_strides(b, b.add(keys, _LONG(4 * PAGE * k)), _LONG(64), KEYS)
            shared = [load(a, I8_64.vector) for a in row]
            fours = broadcasts(b, b.add(q, _LONG(4 * k)), stride, QUERIES, _INT)
            pairs = [(v, b.bitcast(four, I8_64.vector)) for four in fours for v in shared]
            for dot, (v, four) in zip(dots, pairs, strict=True):
                dot.add(v, four)
        d_keys = [half_to_float(b, load(a, _HALVES)) for a in at_strides(b, key_scales, _LONG(32), KEYS)]
        d = [b.fmul(d_key, d_q) for d_q in broadcasts(b, q_scales, stride, QUERIES) for d_key in d_keys]
        totals = [b.sitofp(dot.total(), F32.vector) for dot in dots]
        return as_tuple(
            b, [fma(b, total, scale, s) for total, scale, s in zip(totals, d, of_tuple(b, sums), strict=True)]
        )

    return add
