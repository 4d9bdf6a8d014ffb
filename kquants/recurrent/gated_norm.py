"""The norm of each group of values of a recurrent layer's result, and its gate."""

import numba as nb

from kquants.activations.exponential import times_sigmoid
from kquants.activations.moments import mean_square
from kquants.activations.row_quantizer import quantize_values
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.records import GatedNormOp
from kquants.simd import keep_f32, load_f32x16_part, mul_f32, splat_f32, square_root, store_f32x16_part
from kquants.threadpool.interpreter import arguments_of, row_count

_norm_of = arguments_of(GatedNormOp)


@inline
def _gated(given: GatedNormOp, x: Vector, z: int, n: int) -> Vector:
    """x · f(z) of the first n values of a vector."""
    v = load_f32x16_part(z, n)
    return mul_f32(x, times_sigmoid(v, v)) if given.silu else times_sigmoid(x, v)


@inline
def _norm_group(given: GatedNormOp, h: int, x: int, z: int, weight: int) -> None:
    """The result h of a group; a weight of 0: without a norm."""
    n = given.group_dim
    for k in range(0, n, 16):
        v = load_f32x16_part(x + 4 * k, n - k)
        if given.gate_first:
            v = _gated(given, v, z + 4 * k, n - k)
        store_f32x16_part(h + 4 * k, v, n - k)
    scale = splat_f32(nb.float32(1) / square_root(mean_square(h, n) + given.eps))
    for k in range(0, n, 16):
        v = load_f32x16_part(h + 4 * k, n - k)
        if weight != 0:
            v = mul_f32(mul_f32(v, scale), load_f32x16_part(weight + 4 * k, n - k))
        if not given.gate_first:
            v = _gated(given, v, z + 4 * k, n - k)
        store_f32x16_part(h + 4 * k, keep_f32(v, n - k, nb.float32(0)), n - k)


@kernel("gated_norm")
def gated_norm(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: GatedNormOp; a piece of a row a unit. Where h is null, scratch has the result: float32[width]."""
    given, rows = _norm_of(op), row_count(op, batch)
    n, width, piece = given.group_dim, given.groups * given.group_dim, given.piece
    pieces = (width + piece - 1) // piece
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * piece
        stop = min(start + piece, width)
        h = given.h + t * given.h_bytes if given.h != 0 else scratch
        for k in range(start, stop, n):
            weight = given.weight + 4 * (k // n) * given.weight_stride if given.weight != 0 else 0
            x, z = given.x + t * given.x_bytes + 4 * k, given.z + t * given.z_bytes + 4 * k
            _norm_group(given, h + 4 * k, x, z, weight)
        quantize_values(h, start, stop, width, t, rows, given.q8, given.super_q8)
