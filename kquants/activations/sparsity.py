"""Activations that count only where they exceed most others of their row (Gemma 3n)."""

import numba as nb

from kquants.activations.moments import mean, variance
from kquants.compiler.decorators import kernel
from kquants.records import TopActivationsOp
from kquants.simd import keep_f32, larger_f32, load_f32x16, splat_f32, square_root, store_f32x16, sub_f32
from kquants.threadpool.interpreter import arguments_of

_top_of = arguments_of(TopActivationsOp)


@kernel("top_activations")
def top_activations(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: TopActivationsOp; a row a unit."""
    given = _top_of(op)
    n, zero = given.n, splat_f32(nb.float32(0))
    for t in range(first, last):
        x = given.x + t * given.x_bytes
        center = mean(x, n)
        least = splat_f32(center + given.deviations * square_root(variance(x, center, n)))
        for k in range(0, n, 16):
            above = larger_f32(zero, sub_f32(load_f32x16(x + 4 * k), least))
            store_f32x16(x + 4 * k, keep_f32(above, n - k, nb.float32(0)))
