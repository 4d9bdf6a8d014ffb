"""Causal convolutions over the rows of each sequence, one for each channel."""

from typing import Any

import numba as nb

from kquants.activations.exponential import times_sigmoid
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import MAX_TAPS
from kquants.records import ConvOp
from kquants.recurrent.state import kept_state, segment_rows, state_before
from kquants.recurrent.taps import (
    convolution_of,
    load_inputs_of,
    next_inputs_of,
    no_inputs_of,
    store_inputs_of,
    weights_by_tap,
)
from kquants.simd import load_f32x16_part, mul_f32, splat_f32, store_f32x16_part
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
    by_tap, convolved, next_inputs = weights_by_tap(taps), convolution_of(taps), next_inputs_of(taps)
    load_inputs, store_inputs, no_inputs = load_inputs_of(taps), store_inputs_of(taps), no_inputs_of(taps)

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
                before = next_inputs(before, x)
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
