"""Products of bytes are exact for all bytes, in whatever way this CPU makes them (others: test_kquants_cpus)."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from kernels import compiled
from llvmlite import ir
from numpy.typing import NDArray

from kquants.dot4 import SIGNED_OFFSET, start_dot4

Array = NDArray[Any]
_POINTER = ir.IntType(8).as_pointer()


def written(bits: int, signed: bool, products: int) -> ir.Module:
    """LLVM's code of `f(sums, u, s)`: to 16 int32 at `sums`, the products of so many vectors of 64 bytes."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER] * 3), "f")
    b = ir.IRBuilder(function.append_basic_block())
    ints, bytes_ = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(8), 64)
    sums, u, s = (b.bitcast(p, t.as_pointer()) for p, t in zip(function.args, (ints, bytes_, bytes_), strict=True))
    dot = start_dot4(b, b.load(sums, align=1), bits, signed)
    for k in range(products):
        dot.add(*(b.load(b.gep(p, [ir.IntType(32)(k)]), align=1) for p in (u, s)))
    b.store(dot.total(), sums, align=1)
    b.ret_void()
    return module


@cache
def function(bits: int, signed: bool, products: int) -> Any:
    """`f`, compiled."""
    return compiled(written(bits, signed, products), 3)


def check(u: Array, s: Array, bits: int, signed: bool = False) -> None:
    """The products of u (plus an offset, if signed) and s, [n, 64], added to sums of any size, modulo 2**32."""
    sums = np.linspace(-(2**31), 2**31 - 1, 16).astype(np.int32)
    u = u + SIGNED_OFFSET if signed else u
    exact = sums + (u.astype(np.int64) * s.astype(np.int64)).reshape(len(u), 16, 4).sum((0, 2))
    u, s = u.astype(np.int64).astype(np.uint8), s.astype(np.int8)
    function(bits, signed, len(u))(sums.ctypes.data, u.ctypes.data, s.ctypes.data)
    assert np.array_equal(sums, exact.astype(np.int32))


BITS = (4, 5, 6, 7, 8)
NUMBERS = (1, 3, 8, 9)
"""Of products: one, less than a chain, a whole one of the longest, and one more."""


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("n", NUMBERS)
def test_products_of_extreme_bytes_are_exact(bits: int, n: int) -> None:
    extremes = sorted({0, 1, 15, 16, 127, 128, 240, 255, 2**bits - 1} & set(range(2**bits)))
    for u, s in product(extremes, (-128, -127, -1, 0, 127)):
        check(np.full((n, 64), u), np.full((n, 64), s), bits)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("n", NUMBERS)
def test_products_of_random_bytes_are_exact(bits: int, n: int) -> None:
    rng = np.random.default_rng(bits * n)
    for _ in range(50):
        check(rng.integers(0, 2**bits, (n, 64)), rng.integers(-128, 128, (n, 64)), bits)
        ends = rng.choice([0, 2**bits - 1], (n, 64)), rng.choice([-128, 127], (n, 64))
        check(*ends, bits)


@pytest.mark.parametrize("n", NUMBERS)
def test_products_of_signed_bytes_are_exact(n: int) -> None:
    rng = np.random.default_rng(n)
    for w, s in product((-128, -127, -1, 0, 1, 127), (-127, -1, 0, 127)):
        check(np.full((n, 64), w), np.full((n, 64), s), 8, signed=True)
    for _ in range(50):
        check(rng.integers(-128, 128, (n, 64)), rng.integers(-127, 128, (n, 64)), 8, signed=True)
        check(rng.choice([-128, 127], (n, 64)), rng.choice([-127, 127], (n, 64)), 8, signed=True)


def test_each_byte_meets_its_own() -> None:
    for i, j in product(range(64), range(64)):
        u, s = np.zeros((1, 64)), np.zeros((1, 64))
        u[0, i], s[0, j] = 200, -100
        check(u, s, 8)
