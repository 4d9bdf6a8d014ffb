"""Operations on bundles: a few queries times a few vectors, as many sums as the registers hold.

A bundle is a tuple of `queries · vectors` vectors of 16 float32, those of the first query first. What the sums
meet is loaded once for all queries: `vectors` vectors of 16 keys, or of 16 values of a cell.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from kquants.compiler.cpu import has
from kquants.simd import F32, as_tuple, at_strides, define, fma, half_to_float, of_tuple, pointer, splat

QUERIES = 4
"""Queries of a bundle: so many heads, or twice as many, often share a KV head."""

MANY_QUERIES = 6 if has("fma") and not has("avx512f") else QUERIES
"""Those of a bundle among many, of a prompt: their sums fill 12 of the 16 registers of AVX, where those of four leave
products too little to do while they wait. Attention of a Zen 4 with AVX2 alone takes 0.94 of the time so."""

WIDE = 4 if has("avx512f") else 1
"""Vectors of a wide bundle: four fill 16 of the 32 registers of AVX-512; elsewhere one takes two or four registers."""

_BYTE, _SHORT, _LONG, _FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(64), ir.FloatType()
_VF = F32.vector


def _vectors_at(b: ir.IRBuilder, address: Any, n: int) -> list[Any]:
    return [pointer(b, a, _VF) for a in at_strides(b, address, _LONG(64), n)]


def broadcasts(b: ir.IRBuilder, address: Any, stride: Any, n: int, element: Any = _FLOAT) -> list[Any]:
    """The element that each of `n` queries has at an address, `stride` bytes apart, in all lanes."""
    return [splat(b, b.load(pointer(b, a, element), align=1)) for a in at_strides(b, address, stride, n)]


class Operations(NamedTuple):
    """Operations on bundles of a number of vectors; `v` stands for a tuple of so many.

    `zero() -> bundle`; `load(address, stride) -> bundle` and `store(address, bundle, stride)`, with `stride` bytes
    from query to query; `load_f16(address) -> v`, `load_f32(address) -> v`; `load_q8(address, scales) -> v`: int8, each
    32 of them times a float16 scale;
    `add(bundle, v, x, stride) -> bundle`: for each query plus v · its float32 at x, fused;
    `add_seen(bundle, v, x, stride) -> bundle`: the same, but for the queries whose float32 is below 0.
    """

    zero: Any
    load: Any
    store: Any
    load_f16: Any
    load_f32: Any
    load_q8: Any
    add: Any
    add_seen: Any


def operations(n: int, queries: int = QUERIES) -> Operations:
    """The operations on bundles of so many queries and of `n` vectors."""
    vectors, bundle = types.UniTuple(F32, n), types.UniTuple(F32, queries * n)

    @define(bundle)
    def zero(b: ir.IRBuilder) -> Any:
        return ir.Constant(ir.ArrayType(_VF, queries * n), None)

    @define(bundle, types.int64, types.int64)
    def load(b: ir.IRBuilder, address: Any, stride: Any) -> Any:
        places = [p for a in at_strides(b, address, stride, queries) for p in _vectors_at(b, a, n)]
        return as_tuple(b, [b.load(p, align=1) for p in places])

    @define(types.none, types.int64, bundle, types.int64)
    def store(b: ir.IRBuilder, address: Any, sums: Any, stride: Any) -> None:
        places = [p for a in at_strides(b, address, stride, queries) for p in _vectors_at(b, a, n)]
        for place, v in zip(places, of_tuple(b, sums), strict=True):
            b.store(v, place, align=1)

    @define(vectors, types.int64)
    def load_f16(b: ir.IRBuilder, address: Any) -> Any:
        places = at_strides(b, address, _LONG(32), n)
        halves = [b.load(pointer(b, a, ir.VectorType(_SHORT, 16)), align=1) for a in places]
        return as_tuple(b, [half_to_float(b, v) for v in halves])

    @define(vectors, types.int64)
    def load_f32(b: ir.IRBuilder, address: Any) -> Any:
        return as_tuple(b, [b.load(p, align=1) for p in _vectors_at(b, address, n)])

    @define(vectors, types.int64, types.int64)
    def load_q8(b: ir.IRBuilder, address: Any, scales: Any) -> Any:
        places = at_strides(b, address, _LONG(16), n)
        whole = [b.load(pointer(b, a, ir.VectorType(_BYTE, 16)), align=1) for a in places]
        halves = [b.load(pointer(b, a, _SHORT), align=1) for a in at_strides(b, scales, _LONG(2), -(-n // 2))]
        d = [splat(b, half_to_float(b, half)) for half in halves]
        return as_tuple(b, [b.fmul(b.sitofp(v, _VF), d[i // 2]) for i, v in enumerate(whole)])

    def products(b: ir.IRBuilder, sums: Any, v: Any, x: Any, stride: Any) -> list[tuple[Any, Any, Any]]:
        """For each sum: what it was, the query's factor, what it becomes."""
        old, shared = of_tuple(b, sums), of_tuple(b, v)
        pairs = [(factor, w) for factor in broadcasts(b, x, stride, queries) for w in shared]
        fused = [fma(b, w, f, s) for s, (f, w) in zip(old, pairs, strict=True)]
        return [(s, f, new) for s, (f, _), new in zip(old, pairs, fused, strict=True)]

    @define(bundle, bundle, vectors, types.int64, types.int64)
    def add(b: ir.IRBuilder, sums: Any, v: Any, x: Any, stride: Any) -> Any:
        return as_tuple(b, [new for _, _, new in products(b, sums, v, x, stride)])

    @define(bundle, bundle, vectors, types.int64, types.int64)
    def add_seen(b: ir.IRBuilder, sums: Any, v: Any, x: Any, stride: Any) -> Any:
        zero = ir.Constant(_VF, None)
        changes = products(b, sums, v, x, stride)
        return as_tuple(b, [b.select(b.fcmp_ordered("<", factor, zero), old, new) for old, factor, new in changes])

    return Operations(zero, load, store, load_f16, load_f32, load_q8, add, add_seen)
