"""The ops between matmuls: RMSNorm, biases, SwiGLU, quantization of activations.

Rows of activations are float32, padded with zeros to a multiple of 16; every op keeps the padding zero. An op
that feeds quantized products writes quantized rows at once: `q` for formats without super-blocks, `super_q` for
those with them, each where its address is not 0.
"""

from typing import Any

import numba as nb

from kquants.activations.exponential import exp
from kquants.activations.quantized import quantize_block, quantize_group
from kquants.activations.super_quantized import int16_place, store_int16, super_block_quantizer
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import BLOCK_GROUP_BYTES, PIECE, SUPER_GROUP_BYTES, X_BLOCK_BYTES, X_GROUP
from kquants.records import AddBiasOp, HeadNormOp, KeepOutputsOp, QuantizeOp, RmsNormOp, SwiGLUOp
from kquants.simd import (
    add_f32,
    copy,
    div_f32,
    fma_f32,
    load_f32x16,
    load_f32x16_part,
    mul_f32,
    splat_f32,
    square_root,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
    sum_f32,
)
from kquants.threadpool.interpreter import arguments_of, batch_row, row_count
from kquants.tuning import Tuning, tuning

_norm_of, _norm_heads_of, _outputs_of = arguments_of(RmsNormOp), arguments_of(HeadNormOp), arguments_of(KeepOutputsOp)
_bias_of, _quantize_of, _swiglu_of = arguments_of(AddBiasOp), arguments_of(QuantizeOp), arguments_of(SwiGLUOp)


def _quantizer(tuning: Tuning) -> Any:
    """`quantize(x, start, stop, n, t, rows, q, super_q)`: values `start` … `stop`, of n, of row t of `rows`.

    They are float32 at `x`; `start` is a multiple of 256.
    """
    quantize_super_block, amx, decode_rows = super_block_quantizer(tuning), tuning.amx, tuning.decode_rows

    @inline
    def quantize(x: int, start: int, stop: int, n: int, t: int, rows: int, q: int, super_q: int) -> None:
        for k in range(start, stop, X_GROUP):
            place = k // X_GROUP * rows + t
            if super_q != 0:
                group = super_q + place * SUPER_GROUP_BYTES
                quantize_super_block(x + 4 * k, group)
                if amx and rows > decode_rows:
                    store_int16(group, super_q + int16_place(n, rows, place))
            if q != 0:
                group = q + place * BLOCK_GROUP_BYTES
                if stop - k >= X_GROUP:
                    quantize_group(x + 4 * k, group)
                else:
                    for i in range(0, stop - k, 32):
                        quantize_block(x + 4 * (k + i), group + i, group + X_GROUP + i // 32 * X_BLOCK_BYTES)

    return quantize


_quantize = _quantizer(tuning())


@inline
def _norm_row(x: int, weight: int, n: int, eps: float, h: int) -> None:
    """h = x / sqrt(mean(x²) + eps) · weight over n values."""
    squares = splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        v = load_f32x16(x + 4 * k)
        squares = fma_f32(v, v, squares)
    scale = _norm_scale(squares, n, eps)
    for k in range(0, n, 16):
        w = load_f32x16_part(weight + 4 * k, n - k)
        store_f32x16(h + 4 * k, mul_f32(mul_f32(load_f32x16(x + 4 * k), scale), w))


@inline
def _norm_scale(squares: Vector, n: int, eps: float) -> Vector:
    mean = sum_f32(squares) / nb.float32(n)
    return splat_f32(nb.float32(1) / square_root(mean + eps))


@inline
def _norm_head(x: int, weight: int, n: int, eps: float) -> None:
    """RMSNorm of n values in place; the next head may begin right after them."""
    squares = splat_f32(nb.float32(0))
    for k in range(0, n, 16):
        v = load_f32x16_part(x + 4 * k, n - k)
        squares = fma_f32(v, v, squares)
    scale = _norm_scale(squares, n, eps)
    for k in range(0, n, 16):
        v, w = load_f32x16_part(x + 4 * k, n - k), load_f32x16_part(weight + 4 * k, n - k)
        store_f32x16_part(x + 4 * k, mul_f32(mul_f32(v, scale), w), n - k)


@kernel("rms_norm")
def rms_norm(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: RmsNormOp; a row a unit. Where h is null, it passes through scratch: n float32, whole vectors."""
    given, rows = _norm_of(op), row_count(op, batch)
    for t in range(first, last):
        h = given.h + t * given.h_bytes if given.h != 0 else scratch
        _norm_row(given.x + t * given.x_bytes, given.weight, given.n, given.eps, h)
        _quantize(h, 0, given.n, given.n, t, rows, given.q8, given.super_q8)


@kernel("keep_outputs")
def keep_outputs(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: KeepOutputsOp; a piece of all rows a unit.

    None is written before it was read, as outputs come in the order of the rows.
    """
    given, start = _outputs_of(op), first * 4 * PIECE
    x, row_bytes = given.x + start, given.x_bytes
    nbytes = min(last * 4 * PIECE, row_bytes) - start
    for t in range(row_count(op, batch)):
        row = batch_row(op, batch, t)
        if row != t:
            copy(x + t * row_bytes, x + row * row_bytes, nbytes)


@kernel("norm_heads")
def norm_heads(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: HeadNormOp; a row a unit."""
    given = _norm_heads_of(op)
    for t in range(first, last):
        for h in range(given.heads):
            x = given.x + t * given.x_bytes + 4 * h * given.head_dim
            _norm_head(x, given.weight, given.head_dim, given.eps)


@kernel("add_bias")
def add_bias(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: AddBiasOp; a piece of a row a unit."""
    given = _bias_of(op)
    n = given.n
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        y = given.y + t * given.y_bytes
        for k in range(start, min(start + PIECE, n), 16):
            bias = load_f32x16_part(given.bias + 4 * k, n - k)
            store_f32x16(y + 4 * k, add_f32(load_f32x16(y + 4 * k), bias))


@kernel("quantize")
def quantize_rows(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: QuantizeOp; a piece of a row a unit."""
    given = _quantize_of(op)
    n = given.n
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        stop = min(start + PIECE, n)
        x, rows = given.x + t * given.x_bytes, row_count(op, batch)
        _quantize(x, start, stop, n, t, rows, given.q8, given.super_q8)


@kernel("swiglu")
def swiglu(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SwiGLUOp; a piece of a row a unit. What is quantized passes through scratch: PIECE float32."""
    given = _swiglu_of(op)
    n, row_bytes = given.n, given.row_bytes
    as_floats = given.q8 == 0 and given.super_q8 == 0
    pieces = (n + PIECE - 1) // PIECE
    one, zero = splat_f32(nb.float32(1)), splat_f32(nb.float32(0))
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        stop = min(start + PIECE, n)
        gate, up = given.gate + t * row_bytes, given.up + t * row_bytes
        to = gate if as_floats else scratch - 4 * start
        for k in range(start, stop, 16):
            z = load_f32x16(gate + 4 * k)
            silu = div_f32(z, add_f32(one, exp(sub_f32(zero, z))))
            store_f32x16(to + 4 * k, mul_f32(silu, load_f32x16(up + 4 * k)))
        if not as_floats:
            _quantize(to, start, stop, n, t, row_count(op, batch), given.q8, given.super_q8)
