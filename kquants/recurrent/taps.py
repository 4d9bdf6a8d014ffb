"""A convolution over time on 16 channels: its weights and inputs as values, a vector for each tap.

Each function gives an operation for a number of taps. The inputs `before` are those of the last taps - 1 rows, the
oldest first. In memory they are rows of a state, `row_bytes` apart.
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.layout import MAX_TAPS
from kquants.simd import F32, as_tuple, at_strides, define, fma, joined, load, of_tuple, pointer, shuffle


def weights_by_tap(taps: int) -> Any:
    """`by_tap(weights)`: the weights of each tap, from vectors of weights whose taps lie side by side in a channel."""

    @define(types.UniTuple(F32, taps), types.UniTuple(F32, MAX_TAPS))
    def by_tap(b: ir.IRBuilder, weights: Any) -> Any:
        flat = joined(b, of_tuple(b, weights))
        return as_tuple(b, [shuffle(b, flat, flat, range(i, 16 * taps, taps)) for i in range(taps)])

    return by_tap


def load_inputs_of(taps: int) -> Any:
    """`load_inputs(state, row_bytes)`: the inputs before a row."""

    @define(types.UniTuple(F32, taps - 1), types.int64, types.int64)
    def load_inputs(b: ir.IRBuilder, state: Any, row_bytes: Any) -> Any:
        return as_tuple(b, [load(b, place, F32.vector) for place in at_strides(b, state, row_bytes, taps - 1)])

    return load_inputs


def store_inputs_of(taps: int) -> Any:
    """`store_inputs(state, row_bytes, before)`: the inverse of `load_inputs`."""

    @define(types.none, types.int64, types.int64, types.UniTuple(F32, taps - 1))
    def store_inputs(b: ir.IRBuilder, state: Any, row_bytes: Any, before: Any) -> None:
        for place, v in zip(at_strides(b, state, row_bytes, taps - 1), of_tuple(b, before), strict=True):
            b.store(v, pointer(b, place, v.type), align=4)

    return store_inputs


def no_inputs_of(taps: int) -> Any:
    """`no_inputs()`: zeros, the inputs before the first row of a sequence."""

    @define(types.UniTuple(F32, taps - 1))
    def no_inputs(b: ir.IRBuilder) -> Any:
        return as_tuple(b, [ir.Constant(F32.vector, None)] * (taps - 1))

    return no_inputs


def next_inputs_of(taps: int) -> Any:
    """`next_inputs(before, x)`: the inputs before the next row, where x are those of this one."""

    @define(types.UniTuple(F32, taps - 1), types.UniTuple(F32, taps - 1), F32)
    def next_inputs(b: ir.IRBuilder, before: Any, x: Any) -> Any:
        return as_tuple(b, [*of_tuple(b, before)[1:], x])

    return next_inputs


def convolution_of(taps: int) -> Any:
    """`convolved(bias, weights, before, x)`: bias + Σ weight · input, added up from the oldest input on."""

    @define(F32, F32, types.UniTuple(F32, taps), types.UniTuple(F32, taps - 1), F32)
    def convolved(b: ir.IRBuilder, bias: Any, weights: Any, before: Any, x: Any) -> Any:
        v = bias
        for w, given in zip(of_tuple(b, weights), [*of_tuple(b, before), x], strict=True):
            v = fma(b, w, given, v)
        return v

    return convolved
