"""Rotary position embedding: the pairs of a head, turned by angles whose cosine and sine are given."""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.simd import F32, add_f32, define, load_f32x16_part, mul_f32, pick, store_f32x16_part, sub_f32


def _lanes(*lanes: int) -> Any:
    """The operation that takes these lanes of two vectors: 0 … 15 of the first, 16 … 31 of the second."""
    return define(F32, F32, F32)(lambda b, x, y: pick(b, x, y, lanes))


_even, _odd = _lanes(*range(0, 32, 2)), _lanes(*range(1, 32, 2))
_each_even_twice, _each_odd_twice = _lanes(*(i & ~1 for i in range(16))), _lanes(*(i | 1 for i in range(16)))
_swapped = _lanes(*(i ^ 1 for i in range(16)))
_alternating = _lanes(*(i + 16 * (i % 2) for i in range(16)))


@inline
def _rotate_halves(head: int, rotations: int, half: int) -> None:
    for i in range(0, half, 16):
        low = load_f32x16_part(rotations + 8 * i, 2 * (half - i))
        high = load_f32x16_part(rotations + 8 * i + 64, 2 * (half - i) - 16)
        cosine, sine = _even(low, high), _odd(low, high)
        first, second = head + 4 * i, head + 4 * (half + i)
        a, b = load_f32x16_part(first, half - i), load_f32x16_part(second, half - i)
        store_f32x16_part(first, sub_f32(mul_f32(a, cosine), mul_f32(b, sine)), half - i)
        store_f32x16_part(second, add_f32(mul_f32(a, sine), mul_f32(b, cosine)), half - i)


@inline
def _rotate_neighbours(head: int, rotations: int, rope_dim: int) -> None:
    for i in range(0, rope_dim, 16):
        x, r = load_f32x16_part(head + 4 * i, rope_dim - i), load_f32x16_part(rotations + 4 * i, rope_dim - i)
        straight = mul_f32(x, _each_even_twice(r, r))
        crossed = mul_f32(_swapped(x, x), _each_odd_twice(r, r))
        turned = _alternating(sub_f32(straight, crossed), add_f32(straight, crossed))
        store_f32x16_part(head + 4 * i, turned, rope_dim - i)


@inline
def rotate(head: int, rotations: int, rope_dim: int, neox: int) -> None:
    """Rotate the pairs of a head in place: neighbours (2i, 2i + 1), or with `neox` (i, i + rope_dim / 2).

    `rotations`: float32[rope_dim / 2, 2], cosine and sine of each pair's angle.
    """
    if neox:
        _rotate_halves(head, rotations, rope_dim // 2)
    else:
        _rotate_neighbours(head, rotations, rope_dim)
