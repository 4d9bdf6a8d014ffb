"""KV pages: where a cell lies, and what is written there: keys after RoPE, and values.

A page holds the keys and values of PAGE tokens for all layers; a layer's part of it starts at its offset:

    K  [kv_head][head_dim][PAGE]              so that lanes are keys, and every sum over d has one order
    V  [kv_head][PAGE][padded head_dim]       padded with zeros to a multiple of 16
"""

from typing import Any

import numba as nb

from kquants.decorators import inline, kernel
from kquants.interpreter import argument
from kquants.layout import PAGE, padded
from kquants.simd import load_f32, load_i32, load_i64, store_f16, store_f32

head_width = inline(padded)


@inline
def page_address(batch: int, t: int, index: int) -> int:
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
        width = head_width(head_dim)
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
            keys = page_address(batch, t, position // PAGE) + argument(op, 10)
            values = keys + kv_heads * head_dim * PAGE * element
            for h in range(kv_heads):
                _rotate(k + 4 * h * head_dim, rotations, rope_dim, argument(op, 9))
                to_key = keys + h * head_dim * PAGE * element
                to_value = values + h * PAGE * head_width(head_dim) * element
                write_key(k + 4 * h * head_dim, position % PAGE, head_dim, to_key)
                write_value(v + 4 * h * head_dim, position % PAGE, head_dim, to_value)


_define_store("f16", 2, store_f16)
_define_store("f32", 4, store_f32)
