"""Micro-tiles: a few queries times a few vectors, as many accumulators as the registers hold.

A micro-tile is a tuple of `queries · n` vectors of 16 float32, those of the first query first. What is multiplied into
it is loaded once for all queries: `n` vectors of 16 keys, or of 16 values of a cell.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from kquants.simd import F32, as_tuple, at_strides, define, fma, half_to_float, of_tuple, pointer, splat
from kquants.tuning import tuning

DECODE_QUERIES = 4
"""Queries of a micro-tile: four or eight heads often share a KV head."""

PREFILL_QUERIES = tuning().attention_queries
"""Queries of a micro-tile where there are many, as in a prompt."""

WIDE_VECTORS = tuning().attention_vectors
"""Vectors of a wide micro-tile."""

_BYTE, _SHORT, _LONG, _FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(64), ir.FloatType()
_VF = F32.vector


def _vectors_at(b: ir.IRBuilder, address: Any, n: int) -> list[Any]:
    return [pointer(b, a, _VF) for a in at_strides(b, address, _LONG(64), n)]


def broadcasts(b: ir.IRBuilder, address: Any, stride: Any, n: int, element: Any = _FLOAT) -> list[Any]:
    """For each of `n` queries, `stride` bytes apart, the element at its address, in all lanes."""
    return [splat(b, b.load(pointer(b, a, element), align=1)) for a in at_strides(b, address, stride, n)]


class MicroTileOps(NamedTuple):
    """Operations on micro-tiles of `n` vectors; `v` is a tuple of `n` vectors, `stride` the bytes from query to query.

    `zero() -> tile`, `load(address, stride) -> tile`, `store(address, tile, stride)`;
    `load_f16(address) -> v`, `load_f32(address) -> v`, `load_q8(address, scales) -> v`: int8, each 32 of them times a
    float16 scale;
    `add(tile, v, x, stride) -> tile`: for each query plus v · its float32 at x, fused;
    `add_seen(tile, v, x, stride) -> tile`: the same, but only for queries whose float32 is not below 0.
    """

    zero: Any
    load: Any
    store: Any
    load_f16: Any
    load_f32: Any
    load_q8: Any
    add: Any
    add_seen: Any


def micro_tile_ops(n: int, queries: int = DECODE_QUERIES) -> MicroTileOps:
    """The operations on micro-tiles of `queries` queries and `n` vectors."""
    vectors, micro_tile = types.UniTuple(F32, n), types.UniTuple(F32, queries * n)

    @define(micro_tile)
    def zero(b: ir.IRBuilder) -> Any:
        return ir.Constant(ir.ArrayType(_VF, queries * n), None)

    @define(micro_tile, types.int64, types.int64)
    def load(b: ir.IRBuilder, address: Any, stride: Any) -> Any:
        places = [p for a in at_strides(b, address, stride, queries) for p in _vectors_at(b, a, n)]
        return as_tuple(b, [b.load(p, align=1) for p in places])

    @define(types.none, types.int64, micro_tile, types.int64)
    def store(b: ir.IRBuilder, address: Any, sums: Any, stride: Any) -> None:
        places = [p for a in at_strides(b, address, stride, queries) for p in _vectors_at(b, a, n)]
        for place, v in zip(places, of_tuple(b, sums), strict=True):
            b.store(v, place, align=1)

    @define(vectors, types.int64)
    def load_f16(b: ir.IRBuilder, address: Any) -> Any:
        places = at_strides(b, address, _LONG(32), n)
        f16 = [b.load(pointer(b, a, ir.VectorType(_SHORT, 16)), align=1) for a in places]
        return as_tuple(b, [half_to_float(b, v) for v in f16])

    @define(vectors, types.int64)
    def load_f32(b: ir.IRBuilder, address: Any) -> Any:
        return as_tuple(b, [b.load(p, align=1) for p in _vectors_at(b, address, n)])

    @define(vectors, types.int64, types.int64)
    def load_q8(b: ir.IRBuilder, address: Any, scales: Any) -> Any:
        places = at_strides(b, address, _LONG(16), n)
        q8 = [b.load(pointer(b, a, ir.VectorType(_BYTE, 16)), align=1) for a in places]
        f16 = [b.load(pointer(b, a, _SHORT), align=1) for a in at_strides(b, scales, _LONG(2), -(-n // 2))]
        d = [splat(b, half_to_float(b, scale)) for scale in f16]
        return as_tuple(b, [b.fmul(b.sitofp(v, _VF), d[i // 2]) for i, v in enumerate(q8)])

    def products(b: ir.IRBuilder, sums: Any, v: Any, x: Any, stride: Any) -> list[tuple[Any, Any, Any]]:
        """For each accumulator: its old value, the query's factor, its new value."""
        old, shared = of_tuple(b, sums), of_tuple(b, v)
        pairs = [(factor, w) for factor in broadcasts(b, x, stride, queries) for w in shared]
        fused = [fma(b, w, f, s) for s, (f, w) in zip(old, pairs, strict=True)]
        return [(s, f, new) for s, (f, _), new in zip(old, pairs, fused, strict=True)]

    @define(micro_tile, micro_tile, vectors, types.int64, types.int64)
    def add(b: ir.IRBuilder, sums: Any, v: Any, x: Any, stride: Any) -> Any:
        return as_tuple(b, [new for _, _, new in products(b, sums, v, x, stride)])

    @define(micro_tile, micro_tile, vectors, types.int64, types.int64)
    def add_seen(b: ir.IRBuilder, sums: Any, v: Any, x: Any, stride: Any) -> Any:
        zero = ir.Constant(_VF, None)
        changes = products(b, sums, v, x, stride)
        return as_tuple(b, [b.select(b.fcmp_ordered("<", factor, zero), old, new) for old, factor, new in changes])

    return MicroTileOps(zero, load, store, load_f16, load_f32, load_q8, add, add_seen)
