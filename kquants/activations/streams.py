"""The four streams of alternating updates (AltUp, arXiv 2301.13310), and rows scaled to the magnitude of another."""

from typing import Any

import numba as nb

from kquants.activations.exponential import tanh
from kquants.activations.moments import mean_square
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.records import CorrectStreamsOp, MatchMagnitudeOp, PredictStreamsOp
from kquants.simd import (
    fma_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    square_root,
    store_f32,
    store_f32x16,
    sub_f32,
)
from kquants.threadpool.interpreter import arguments_of

_predict_of, _correct_of = arguments_of(PredictStreamsOp), arguments_of(CorrectStreamsOp)
_match_of = arguments_of(MatchMagnitudeOp)

_LEAST_SQUARE = nb.float32(1e-5)


@kernel("match_magnitude")
def match_magnitude(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: MatchMagnitudeOp; a row a unit."""
    given = _match_of(op)
    n = given.n
    for t in range(first, last):
        x, y, to = given.x + t * given.row_bytes, given.y + t * given.row_bytes, given.to + t * given.row_bytes
        square = mean_square(y, n)
        if square < _LEAST_SQUARE:
            square = _LEAST_SQUARE
        scale = splat_f32(square_root(mean_square(x, n)) / square_root(square))
        for k in range(0, n, 16):
            store_f32x16(to + 4 * k, mul_f32(load_f32x16(y + 4 * k), scale))


@inline
def _route(routed: int, scale: float, coefficients: int, count: int, scratch: int) -> None:
    """Write `count` sums c_m = Σ_q coefficients[m, q] · tanh(scale · routed_q) over four q to scratch."""
    store_f32x16(scratch, tanh(mul_f32(splat_f32(scale), load_f32x16_part(routed, 4))))
    for m in range(count):
        total = nb.float32(0)
        for q in range(4):
            total += load_f32(coefficients + 4 * (4 * m + q)) * load_f32(scratch + 4 * q)
        store_f32(scratch + 64 + 4 * m, total)


@inline
def _predicted(streams: Any, scratch: int, j: int) -> Vector:
    """Σ_i c_4j+i · streams_i, added to streams_j."""
    total = streams[j]
    for i in range(4):
        total = fma_f32(splat_f32(load_f32(scratch + 64 + 4 * (4 * j + i))), streams[i], total)
    return total


@kernel("predict_streams")
def predict_streams(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: PredictStreamsOp; a row a unit. Scratch: 32 float32."""
    given = _predict_of(op)
    for t in range(first, last):
        row = t * given.row_bytes
        x0, x1, x2, x3 = given.x + row, given.x_1 + row, given.x_2 + row, given.x_3 + row
        _route(given.routed + t * given.routed_bytes, given.router_scale, given.coefficients, 16, scratch)
        for k in range(0, 4 * given.n, 64):
            streams = load_f32x16(x0 + k), load_f32x16(x1 + k), load_f32x16(x2 + k), load_f32x16(x3 + k)
            p0 = _predicted(streams, scratch, 0)
            store_f32x16(x0 + k, p0)
            store_f32x16(given.predicted + row + k, p0)
            store_f32x16(x1 + k, _predicted(streams, scratch, 1))
            store_f32x16(x2 + k, _predicted(streams, scratch, 2))
            store_f32x16(x3 + k, _predicted(streams, scratch, 3))


@inline
def _correct(x: int, change: Vector, factor: float) -> None:
    store_f32x16(x, fma_f32(change, splat_f32(factor), load_f32x16(x)))


@kernel("correct_streams")
def correct_streams(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: CorrectStreamsOp; a row a unit. Scratch: 32 float32."""
    given = _correct_of(op)
    n, one = given.n, nb.float32(1)
    for t in range(first, last):
        row = t * given.row_bytes
        y, p0, scaled = given.x + row, given.predicted + row, given.scaled + row
        _route(given.routed + t * given.routed_bytes, given.router_scale, given.coefficients, 4, scratch)
        c0, c1 = one + load_f32(scratch + 64), one + load_f32(scratch + 68)
        c2, c3 = one + load_f32(scratch + 72), one + load_f32(scratch + 76)
        for k in range(0, n, 16):
            old = load_f32x16(p0 + 4 * k)
            change = sub_f32(load_f32x16(y + 4 * k), old)
            x0 = fma_f32(change, splat_f32(c0), old)
            store_f32x16(y + 4 * k, x0)
            store_f32x16(scaled + 4 * k, mul_f32(x0, load_f32x16_part(given.scale + 4 * k, n - k)))
            _correct(given.x_1 + row + 4 * k, change, c1)
            _correct(given.x_2 + row + 4 * k, change, c2)
            _correct(given.x_3 + row + 4 * k, change, c3)
