"""The operations that matmuls with float weights are made of, for each format.

Weights and x are multiplied as float32, a column in each lane, by fused multiply-adds. Where the CPU multiplies pairs
of bfloat16 (AVX-512 BF16), BF16 weights use that: x is rounded to bfloat16, as llama.cpp does
for BF16 weights on any CPU, and lane i takes columns 32j + 2i + 1 and 32j + 2i, one after the other. (Measured on
Zen 4: prompts at 1.1 times llama.cpp's speed, by way of float32 at 0.63.)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from kquants.compiler.decorators import Vector, inline
from kquants.formats import bf16, f16
from kquants.matmul.sums import REGISTER_LANES, W_ROWS, X_ROWS, Register, Registers
from kquants.simd import (
    BF16_PAIRS,
    HAS_BF16_PAIRS,
    add_bf16_products,
    add_bf16_products_part,
    as_tuple,
    at,
    at_strides,
    define,
    dot_bf16,
    float_to_float,
    fma,
    fma_f32,
    half_to_float,
    load,
    load_f32x16,
    of_tuple,
)

Value = Any


class FloatOps(NamedTuple):
    """How many rows of x are multiplied by packed weights, and a few rows by weights where they lie."""

    step: int
    """Columns that pass at once: those of 16 lanes. Packed rows are filled up to that with zeros."""
    w_bytes: int
    """Of a packed weight."""
    x_bytes: int
    """Of a value of x: 4, or 2 where x is rounded to bfloat16."""
    add_registers: Any
    """`(registers, w, x, x_bytes)`: a register tile plus products of its rows, of which the first begin at w and x.

    Rows of x lie `x_bytes` apart.
    """
    add: Any
    """`(sums, w, x)`: 16 sums plus the products of the columns at two addresses."""
    add_part: Any
    """`(sums, w, x, count)`: the same of the first columns of W. x goes on with zeros."""


def float_ops(fmt: Any, packed_bytes: int) -> FloatOps:
    """The operations of a float format; packed rows are `packed_bytes` apart."""
    if fmt is bf16 and HAS_BF16_PAIRS:
        add_registers = _add_registers(packed_bytes, BF16_PAIRS, BF16_PAIRS, lambda b, w: w, dot_bf16)
        return FloatOps(32, 2, 2, add_registers, add_bf16_products, add_bf16_products_part)
    element, widen = (ir.IntType(16), half_to_float) if fmt is f16 else (ir.FloatType(), float_to_float)
    packed = ir.VectorType(element, REGISTER_LANES)
    add_registers = _add_registers(
        packed_bytes, packed, Register.vector, widen, lambda b, sums, w, x: fma(b, w, x, sums)
    )
    return FloatOps(16, 2 if fmt is f16 else 4, 4, add_registers, _add(fmt.lanes), _add(fmt.lanes_part))


def _add(load_w: Any) -> Any:
    @inline
    def add(sums: Vector, w: int, x: int, *count: int) -> Vector:
        return fma_f32(load_w(w, *count), load_f32x16(x), sums)

    return add


def _add_registers(
    packed_bytes: int,
    w_kind: ir.VectorType,
    x_kind: ir.VectorType,
    widen: Callable[..., Value],
    multiply: Callable[..., Value],
) -> Any:
    @define(Registers, Registers, *[types.int64] * 3)
    def add(b: ir.IRBuilder, registers: Value, w: Value, x: Value, x_bytes: Value) -> Value:
        of_x = [load(b, row, x_kind) for row in at_strides(b, x, x_bytes, X_ROWS)]
        old, new = of_tuple(b, registers), list[Value]()
        for r in range(W_ROWS):
            of_w = widen(b, load(b, at(b, w, packed_bytes * r), w_kind))
            new += [multiply(b, old[X_ROWS * r + t], of_w, v) for t, v in enumerate(of_x)]
        return as_tuple(b, new)

    return add
