"""Attention over KV pages, and what comes before it: RoPE and the write into the page.

A page holds the keys and values of PAGE tokens for all layers; a layer's part of it starts at its offset:

    K  [kv_head][head_dim][PAGE]              so that lanes are keys, and every sum over d has one order
    V  [kv_head][PAGE][padded head_dim]       padded with zeros to a multiple of 16

The softmax of one page is a partial result (its largest score m, its sum l, its weighted values); a row merges
its pages in order. A row's result depends on its own query and cells alone: the same bits, whatever the batch.
"""

import math
from typing import Any

import numba as nb

from kquants.decorators import Vector, inline, kernel
from kquants.functions import exp
from kquants.interpreter import argument
from kquants.layout import PAGE, padded
from kquants.simd import (
    add_f32,
    fma_f32,
    keep_f32,
    largest_f32,
    load_f16x16,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    max_f32,
    mul_f32,
    splat_f32,
    store_f16,
    store_f32,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
    sum_f32,
)

_MINUS_INFINITY = nb.float32(-math.inf)


_padded = inline(padded)


@inline
def _page(batch: int, t: int, index: int) -> int:
    """Address of the index-th page of row t's sequence."""
    table = load_i64(load_i64(batch + 24) + 8 * t)
    return load_i64(load_i64(batch + 56) + 8 * load_i32(table + 4 * index))


@inline
def _rotate(head: int, rotations: int, rope_dim: int, neox: int) -> None:
    """Rotate the pairs of a head in place: neighbours (2i, 2i + 1), or with `neox` (i, i + rope_dim / 2)."""
    half = rope_dim // 2
    for i in range(half):
        first = head + (4 * i if neox else 8 * i)
        second = first + (4 * half if neox else 4)
        cosine, sine = load_f32(rotations + 8 * i), load_f32(rotations + 8 * i + 4)
        a, b = load_f32(first), load_f32(second)
        store_f32(first, a * cosine - b * sine)
        store_f32(second, a * sine + b * cosine)


def _define_store(name: str, element: int, store: Any) -> None:
    @inline
    def write_key(key: int, cell: int, head_dim: int, to: int) -> None:
        for d in range(head_dim):
            store(to + (d * PAGE + cell) * element, load_f32(key + 4 * d))

    @inline
    def write_value(value: int, cell: int, head_dim: int, to: int) -> None:
        width = _padded(head_dim)
        for d in range(width):
            x = load_f32(value + 4 * d) if d < head_dim else nb.float32(0)
            store(to + (cell * width + d) * element, x)

    @kernel(f"rope_store_{name}")
    def rope_store(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Rotate q and k in place and write k and v into the row's own cell; one row a unit.

        Arguments: q, bytes per row, k, v, bytes per row of both, heads, kv heads, head_dim, rope_dim, neox,
        the layer's offset in a page.
        """
        heads, kv_heads, head_dim, rope_dim = argument(op, 5), argument(op, 6), argument(op, 7), argument(op, 8)
        for t in range(first, last):
            q, k, v = argument(op, 0), argument(op, 2), argument(op, 3)
            q, k, v = q + t * argument(op, 1), k + t * argument(op, 4), v + t * argument(op, 4)
            rotations = load_i64(batch + 48) + t * rope_dim * 4
            for h in range(heads):
                _rotate(q + 4 * h * head_dim, rotations, rope_dim, argument(op, 9))
            position = load_i32(load_i64(batch + 32) + 4 * t) - 1
            keys = _page(batch, t, position // PAGE) + argument(op, 10)
            values = keys + kv_heads * head_dim * PAGE * element
            for h in range(kv_heads):
                _rotate(k + 4 * h * head_dim, rotations, rope_dim, argument(op, 9))
                to_key = keys + h * head_dim * PAGE * element
                to_value = values + h * PAGE * _padded(head_dim) * element
                write_key(k + 4 * h * head_dim, position % PAGE, head_dim, to_key)
                write_value(v + 4 * h * head_dim, position % PAGE, head_dim, to_value)


def _define_attention(name: str, element: int, lanes: Any) -> None:
    @inline
    def scores(q: int, keys: int, cells: int, head_dim: int, scale: float, p: int) -> float:
        """Write the scaled scores of the first `cells` keys of a page to p, -inf after; return the largest."""
        top = splat_f32(_MINUS_INFINITY)
        for j in range(0, cells, 16):
            s = splat_f32(nb.float32(0))
            for d in range(head_dim):
                s = fma_f32(splat_f32(load_f32(q + 4 * d)), lanes(keys + (d * PAGE + j) * element), s)
            s = keep_f32(mul_f32(s, splat_f32(scale)), cells - j, _MINUS_INFINITY)
            store_f32x16(p + 4 * j, s)
            top = max_f32(top, s)
        return largest_f32(top)

    @inline
    def weigh(p: int, cells: int, top: float) -> float:
        """Turn the scores at p into exp(score - top); return their sum."""
        total = splat_f32(nb.float32(0))
        for j in range(0, cells, 16):
            e = exp(sub_f32(load_f32x16(p + 4 * j), splat_f32(top)))
            # Lanes past the last cell hold exp(-inf) = 0.
            store_f32x16(p + 4 * j, e)
            total = add_f32(total, e)
        return sum_f32(total)

    @inline
    def gather(p: int, values: int, cells: int, width: int, d: int) -> Vector:
        """Values d … d + 15 of the page's cells, weighted by p and added in order of the cells."""
        v = splat_f32(nb.float32(0))
        for c in range(cells):
            v = fma_f32(splat_f32(load_f32(p + 4 * c)), lanes(values + (c * width + d) * element), v)
        return v

    @inline
    def attend(op: int, batch: int, t: int, g: int, q: int, out: int, p: int) -> None:
        """One head of one row: softmax(q·K · scale) V over the cells that the row sees."""
        kv_heads, head_dim, scale = argument(op, 5), argument(op, 6), load_f32(op + 8 * 13)
        width, merged = _padded(head_dim), p + 4 * PAGE
        top, total = _MINUS_INFINITY, nb.float32(0)
        for d in range(0, width, 16):
            store_f32x16(merged + 4 * d, splat_f32(nb.float32(0)))
        visible = load_i32(load_i64(batch + 32) + 4 * t)
        for start in range(0, visible, PAGE):
            cells = min(PAGE, visible - start)
            page = _page(batch, t, start // PAGE) + argument(op, 7)
            values = page + (kv_heads * head_dim * PAGE + g * PAGE * width) * element
            page_top = scores(q, page + g * head_dim * PAGE * element, cells, head_dim, scale, p)
            page_total = weigh(p, cells, page_top)
            new_top = max(top, page_top)
            both = exp(keep_f32(splat_f32(top - new_top), 8, page_top - new_top))
            store_f32x16(p + 4 * PAGE + 4 * width, both)
            old, new = load_f32(merged + 4 * width), load_f32(merged + 4 * width + 32)
            top, total = new_top, total * old + page_total * new
            for d in range(0, width, 16):
                part = mul_f32(gather(p, values, cells, width, d), splat_f32(new))
                kept = mul_f32(load_f32x16(merged + 4 * d), splat_f32(old))
                store_f32x16(merged + 4 * d, add_f32(kept, part))
        for d in range(0, head_dim, 16):
            result = mul_f32(load_f32x16(merged + 4 * d), splat_f32(nb.float32(1) / total))
            store_f32x16_part(out + 4 * d, result, head_dim - d)

    @kernel(f"attention_{name}")
    def attention(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Attention; one unit is the query heads of one KV head in one row.

        Arguments: q, bytes per row, out, bytes per row, heads, kv heads, head_dim, the layer's offset in a page,
        scale as float32 bits.
        """
        kv_heads, head_dim = argument(op, 5), argument(op, 6)
        group = argument(op, 4) // kv_heads
        for unit in range(first, last):
            t, g = unit // kv_heads, unit % kv_heads
            for h in range(g * group, (g + 1) * group):
                q = argument(op, 0) + t * argument(op, 1) + 4 * h * head_dim
                out = argument(op, 2) + t * argument(op, 3) + 4 * h * head_dim
                attend(op, batch, t, g, q, out, scratch)


_define_store("f16", 2, store_f16)
_define_store("f32", 4, store_f32)
_define_attention("f16", 2, load_f16x16)
_define_attention("f32", 4, load_f32x16)
