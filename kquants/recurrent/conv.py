"""Causal convolutions over the rows of each sequence, one for each channel."""

from typing import Any

import numba as nb
from llvmlite import ir
from numba import types

from kquants.activations.exponential import times_sigmoid
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import MAX_TAPS
from kquants.records import ConvOp
from kquants.recurrent.state import kept_state, segment_rows, state_before
from kquants.simd import (
    F32,
    as_tuple,
    at_strides,
    define,
    fma,
    joined,
    load,
    load_f32x16_part,
    mul_f32,
    of_tuple,
    pointer,
    shuffle,
    splat_f32,
    store_f32x16_part,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_conv_of = arguments_of(ConvOp)
_CHANNELS = 16
"""The channels of a unit."""


@inline
def _input(given: ConvOp, t: int, k: int) -> Vector:
    """factor · x of 16 channels of a row."""
    place, n = t * given.x_bytes + 4 * k, given.channels - k
    v = load_f32x16_part(given.x + place, n)
    return mul_f32(v, load_f32x16_part(given.factor + place, n)) if given.factor != 0 else v


@inline
def _output(given: ConvOp, t: int, k: int, v: Vector) -> None:
    """y = gate · f(v) of 16 channels of a row."""
    n = given.channels - k
    if given.silu:
        v = times_sigmoid(v, v)
    if given.gate != 0:
        v = mul_f32(v, load_f32x16_part(given.gate + t * given.x_bytes + 4 * k, n))
    store_f32x16_part(given.y + t * given.y_bytes + 4 * k, v, n)


def _unit_of(taps: int) -> Any:
    """`unit(given, batch, k, weights, bias)`: the convolution of channels k … k + 15 of all rows, with that many taps.

    `weights` are those of the channels as they lie in memory. They and the inputs of the last rows stay in registers.
    """
    window, inputs = types.UniTuple(F32, taps), types.UniTuple(F32, taps - 1)

    @define(window, types.UniTuple(F32, MAX_TAPS))
    def by_tap(b: ir.IRBuilder, weights: Any) -> Any:
        """A vector of 16 channels for each tap, from weights whose taps lie side by side in each channel."""
        flat = joined(b, of_tuple(b, weights))
        return as_tuple(b, [shuffle(b, flat, flat, range(i, 16 * taps, taps)) for i in range(taps)])

    @define(inputs, types.int64, types.int64)
    def load_inputs(b: ir.IRBuilder, state: Any, row_bytes: Any) -> Any:
        return as_tuple(b, [load(b, place, F32.vector) for place in at_strides(b, state, row_bytes, taps - 1)])

    @define(types.none, types.int64, types.int64, inputs)
    def store_inputs(b: ir.IRBuilder, state: Any, row_bytes: Any, given: Any) -> None:
        for place, v in zip(at_strides(b, state, row_bytes, taps - 1), of_tuple(b, given), strict=True):
            b.store(v, pointer(b, place, v.type), align=4)

    @define(inputs)
    def no_inputs(b: ir.IRBuilder) -> Any:
        return as_tuple(b, [ir.Constant(F32.vector, None)] * (taps - 1))

    @define(inputs, inputs, F32)
    def shifted(b: ir.IRBuilder, before: Any, x: Any) -> Any:
        return as_tuple(b, [*of_tuple(b, before)[1:], x])

    @define(F32, F32, window, inputs, F32)
    def convolved(b: ir.IRBuilder, bias: Any, weights: Any, before: Any, x: Any) -> Any:
        v = bias
        for w, given in zip(of_tuple(b, weights), [*of_tuple(b, before), x], strict=True):
            v = fma(b, w, given, v)
        return v

    @inline
    def unit(given: ConvOp, batch: int, k: int, weights: Any, bias: Vector) -> None:
        of_taps, row_bytes = by_tap(weights), 64 * ((given.channels + 15) // 16)
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            state = state_before(batch, given.state_group, segment, given.state_offset)
            before = load_inputs(state + 4 * k, row_bytes) if state != 0 else no_inputs()
            for t in range(start, stop):
                x = _input(given, t, k)
                _output(given, t, k, convolved(bias, of_taps, before, x))
                before = shifted(before, x)
                kept = kept_state(batch, given.state_group, t, given.state_offset)
                if kept != 0:
                    store_inputs(kept + 4 * k, row_bytes, before)

    return unit


_two_taps, _three_taps, _four_taps = (_unit_of(taps) for taps in range(2, MAX_TAPS + 1))


@kernel("conv")
def conv(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ConvOp; 16 channels of all rows a unit."""
    given = _conv_of(op)
    for unit in range(first, last):
        k = _CHANNELS * unit
        n = given.channels - k
        bias = load_f32x16_part(given.bias + 4 * k, n) if given.bias != 0 else splat_f32(nb.float32(0))
        w, n = given.weight + 4 * k * given.taps, min(n, _CHANNELS) * given.taps
        first_half = load_f32x16_part(w, n), load_f32x16_part(w + 64, n - 16)
        weights = *first_half, load_f32x16_part(w + 128, n - 32), load_f32x16_part(w + 192, n - 48)
        if given.taps == 2:
            _two_taps(given, batch, k, weights, bias)
        elif given.taps == 3:
            _three_taps(given, batch, k, weights, bias)
        else:
            _four_taps(given, batch, k, weights, bias)
