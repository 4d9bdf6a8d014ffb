"""RoPE (rotary position embedding): rotates the pairs of a head."""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.records import ROPE_NORM
from kquants.simd import F32, add_f32, define, load_f32x16_part, mul_f32, shuffle, store_f32x16_part, sub_f32


def _shuffle(*lanes: int) -> Any:
    """An operation that picks lanes of two vectors x and y: 0 … 15 are those of x, 16 … 31 those of y."""
    return define(F32, F32, F32)(lambda b, x, y: shuffle(b, x, y, lanes))


_even, _odd = _shuffle(*range(0, 32, 2)), _shuffle(*range(1, 32, 2))
_each_even_twice, _each_odd_twice = _shuffle(*(i & ~1 for i in range(16))), _shuffle(*(i | 1 for i in range(16)))
_swap_pairs = _shuffle(*(i ^ 1 for i in range(16)))
_even_of_x_odd_of_y = _shuffle(*(i + 16 * (i % 2) for i in range(16)))


@inline
def _rotate_neox(head: int, cos_sin: int, half: int) -> None:
    for i in range(0, half, 16):
        low = load_f32x16_part(cos_sin + 8 * i, 2 * (half - i))
        high = load_f32x16_part(cos_sin + 8 * i + 64, 2 * (half - i) - 16)
        cosine, sine = _even(low, high), _odd(low, high)
        first, second = head + 4 * i, head + 4 * (half + i)
        a, b = load_f32x16_part(first, half - i), load_f32x16_part(second, half - i)
        store_f32x16_part(first, sub_f32(mul_f32(a, cosine), mul_f32(b, sine)), half - i)
        store_f32x16_part(second, add_f32(mul_f32(a, sine), mul_f32(b, cosine)), half - i)


@inline
def _rotate_norm(head: int, cos_sin: int, rope_dim: int) -> None:
    for i in range(0, rope_dim, 16):
        x, r = load_f32x16_part(head + 4 * i, rope_dim - i), load_f32x16_part(cos_sin + 4 * i, rope_dim - i)
        by_cosine = mul_f32(x, _each_even_twice(r, r))
        by_sine = mul_f32(_swap_pairs(x, x), _each_odd_twice(r, r))
        rotated = _even_of_x_odd_of_y(sub_f32(by_cosine, by_sine), add_f32(by_cosine, by_sine))
        store_f32x16_part(head + 4 * i, rotated, rope_dim - i)


@inline
def rotate(head: int, cos_sin: int, rope_dim: int, rope_type: int) -> None:
    """Rotate the pairs of a head in place; `rope_type` (see `kquants.records`) tells which values are a pair.

    `cos_sin`: float32[rope_dim / 2, 2], cosine and sine of each pair's angle.
    """
    if rope_type != ROPE_NORM:
        _rotate_neox(head, cos_sin, rope_dim // 2)
    else:
        _rotate_norm(head, cos_sin, rope_dim)
