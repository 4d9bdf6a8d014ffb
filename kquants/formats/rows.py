"""Rows of weights as float32: token embeddings, and dequantization."""

from typing import Any

import numba as nb

from kquants.compiler.decorators import inline, kernel
from kquants.formats import bf16, f16, f32
from kquants.formats.quantized import QUANTIZED
from kquants.formats.weights import weights_of
from kquants.layout import TILE_ROWS
from kquants.records import EmbedOp
from kquants.simd import (
    copy,
    load_f32x16_part,
    load_i32,
    load_i64,
    mul_f32,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
)
from kquants.threadpool.interpreter import arguments_of, batch_of

_embed_of = arguments_of(EmbedOp)


@inline
def _scale(x: int, n: int, scale: float) -> None:
    """Multiply n float32 at x, unless by 1."""
    if scale != nb.float32(1):
        for k in range(0, n, 16):
            v = mul_f32(splat_f32(scale), load_f32x16_part(x + 4 * k, n - k))
            store_f32x16_part(x + 4 * k, v, n - k)


def _define(name: str, row_to_f32: Any) -> None:
    """Register the kernels of a format around `row_to_f32(source, n, target)`."""

    @kernel(f"embed_{name}")
    def embed(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Arguments: EmbedOp; a row of the batch a unit."""
        given, tokens = _embed_of(op), batch_of(batch).tokens
        embeddings = batch_of(batch).embeddings if given.own_embeddings else 0
        for t in range(first, last):
            x = given.x + t * given.x_bytes
            embedding = load_i64(embeddings + 8 * t) if embeddings != 0 else 0
            if embedding != 0:
                copy(x, embedding, 4 * given.columns)
            else:
                row_to_f32(given.table + load_i32(tokens + 4 * t) * given.row_bytes, given.columns, x)
                _scale(x, given.columns, given.scale)

    @kernel(f"dequantize_{name}", arguments=3)
    def dequantize(source: int, n: int, target: int) -> None:
        """The `n` weights at `source` to float32 at `target`."""
        row_to_f32(source, n, target)


def row_of(fmt: Any) -> Any:
    """`row_to_f32(source, n, target)` for a quantized format."""
    weights, block_bytes, block = weights_of(fmt), fmt.BLOCK_BYTES, 32 * fmt.BLOCKS

    @inline
    def row_to_f32(source: int, n: int, target: int) -> None:
        count = n // block
        for i in range(0, count, TILE_ROWS):
            weights(source + i * block_bytes, count - i, target + 4 * block * i)

    return row_to_f32


def float_row_of(fmt: Any) -> Any:
    """`row_to_f32(source, n, target)` for a float format."""
    lanes, lanes_part, size = fmt.lanes, fmt.lanes_part, fmt.WEIGHT_BYTES

    @inline
    def row_to_f32(source: int, n: int, target: int) -> None:
        whole = n & ~15
        for k in range(0, whole, 16):
            store_f32x16(target + 4 * k, lanes(source + size * k))
        if whole < n:
            store_f32x16_part(target + 4 * whole, lanes_part(source + size * whole, n - whole), n - whole)

    return row_to_f32


for _name, _quantized in QUANTIZED.items():
    _define(_name, row_of(_quantized))
for _name, _format in {"f32": f32, "f16": f16, "bf16": bf16}.items():
    _define(_name, float_row_of(_format))
