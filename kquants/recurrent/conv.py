"""Causal convolutions over the rows of each sequence, one for each channel."""

import numba as nb

from kquants.activations.exponential import times_sigmoid
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.records import ConvOp
from kquants.recurrent.state import kept_state, segment_rows, state_before
from kquants.simd import (
    fma_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    store_f32,
    store_f32x16,
    store_f32x16_part,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_conv_of = arguments_of(ConvOp)
_CHANNELS = 16


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


@inline
def _weights_by_tap(given: ConvOp, k: int, to: int) -> None:
    """float32[taps, 16] of 16 channels."""
    for i in range(given.taps):
        for lane in range(_CHANNELS):
            at = given.weight + 4 * ((k + lane) * given.taps + i)
            store_f32(to + 64 * i + 4 * lane, load_f32(at) if k + lane < given.channels else nb.float32(0))


@kernel("conv")
def conv(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ConvOp; 16 channels of all rows a unit. Scratch: weights and inputs, float32[2 · taps, 16]."""
    given = _conv_of(op)
    taps, row_bytes = given.taps, 64 * ((given.channels + 15) // 16)
    inputs = scratch + 64 * taps
    for unit in range(first, last):
        k = _CHANNELS * unit
        _weights_by_tap(given, k, scratch)
        bias = load_f32x16_part(given.bias + 4 * k, given.channels - k) if given.bias != 0 else splat_f32(nb.float32(0))
        for segment in range(batch_of(batch).segments):
            start, stop = segment_rows(batch, segment)
            before = state_before(batch, given.state_group, segment, given.state_offset)
            for i in range(taps - 1):
                v = load_f32x16(before + i * row_bytes + 4 * k) if before != 0 else splat_f32(nb.float32(0))
                store_f32x16(inputs + 64 * (i + 1), v)
            for t in range(start, stop):
                for i in range(taps - 1):
                    store_f32x16(inputs + 64 * i, load_f32x16(inputs + 64 * (i + 1)))
                store_f32x16(inputs + 64 * (taps - 1), _input(given, t, k))
                v = bias
                for i in range(taps):
                    v = fma_f32(load_f32x16(scratch + 64 * i), load_f32x16(inputs + 64 * i), v)
                _output(given, t, k, v)
                kept = kept_state(batch, given.state_group, t, given.state_offset)
                if kept != 0:
                    for i in range(taps - 1):
                        store_f32x16(kept + i * row_bytes + 4 * k, load_f32x16(inputs + 64 * (i + 1)))
