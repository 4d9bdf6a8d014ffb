"""Dot products of bytes are exact for all bytes, in this CPU's lowering (others: test_cpus)."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from kquants.simd.dot4 import SIGNED_OFFSET, VIA_INT16, start_dot4_via_int16
from support.byte_dots import POINTER, written
from support.kernels import compiled

Array = NDArray[Any]


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


BITS = (1, 4, 5, 6, 7, 8)
NUMBERS = (1, 3, 8, 9)
"""Of products: one, less than a chain, a whole one of the longest with 4 bits, and one more."""


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


@pytest.mark.parametrize(("bits", "least"), [(6, -63), (7, -127), (8, -128)])
@pytest.mark.parametrize("n", NUMBERS)
def test_products_of_signed_bytes_are_exact(bits: int, least: int, n: int) -> None:
    rng, most = np.random.default_rng(n), 2 ** min(bits, 7) - 1
    for w, s in product((least, -1, 0, 1, most), (-127, -1, 0, 127)):
        check(np.full((n, 64), w), np.full((n, 64), s), bits, signed=True)
    for _ in range(50):
        check(rng.integers(least, most + 1, (n, 64)), rng.integers(-127, 128, (n, 64)), bits, signed=True)
        check(rng.choice([least, most], (n, 64)), rng.choice([-127, 127], (n, 64)), bits, signed=True)


@cache
def short(bits: int, products: int, begins: bool) -> Any:
    """`f(sums, u, s, factors, first)`: to sums, the products, and `first` if that `begins`, times the factors."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 5), "f")
    b = ir.IRBuilder(function.append_basic_block())
    ints, bytes_ = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(8), 64)
    sums, first = (b.bitcast(function.args[i], ints.as_pointer()) for i in (0, 4))
    factors = b.ptrtoint(function.args[3], ir.IntType(64))
    dot = start_dot4_via_int16(b, b.load(sums, align=1), bits, b.load(first, align=1) if begins else None, factors)
    for k in range(products):
        places = (b.gep(b.bitcast(p, bytes_.as_pointer()), [ir.IntType(32)(k)]) for p in function.args[1:3])
        dot.add(*(b.load(place, align=1) for place in places))
    b.store(dot.total(), sums, align=1)
    b.ret_void()
    return compiled(module, 5)


@pytest.mark.skipif(not VIA_INT16, reason="products do not pass through int16 here")
@pytest.mark.parametrize("u", [0, 31, 32, 63])
@pytest.mark.parametrize("factor", [-1024, -1, 0, 1, 1016])
def test_int16_that_fit_in_the_end_are_exact(u: int, factor: int) -> None:
    """Weights with an offset of 32, which is what all begins with: without it products would not fit."""
    rng = np.random.default_rng(u)
    largest = np.array([127, -127] * 8)
    for s, small in product((np.repeat(largest, 4), np.repeat(-largest, 4), rng.choice([-127, 0, 127], 64)), (0, 2)):
        x = np.tile(s, (4, 1))
        x[:, small::4] = x[:, small + 1 :: 4] = rng.integers(-1, 2, (4, 16))
        w = np.where(x, u, rng.integers(0, 64, x.shape))
        first = -32 * x.reshape(4, 16, 2, 2).sum((0, 3))
        factors = np.full(32, factor)
        factors[:2] = 63
        exact = 5 + ((w - 32) * x).reshape(4, 16, 4).sum((0, 2)) * factors[::2]
        check_short(6, w, x, factors, np.full(16, 5), exact, first)


@pytest.mark.skipif(not VIA_INT16, reason="products do not pass through int16 here")
@pytest.mark.parametrize("bits", [2, 4, 5, 6])
@pytest.mark.parametrize("n", NUMBERS)
def test_scaled_products_are_exact(bits: int, n: int) -> None:
    factors, sums = np.repeat([-1024, 1016] * 8, 2), np.linspace(-(2**31), 2**31 - 1, 16).astype(np.int64)
    for u, s in product((0, 2**bits - 1), (-128, 127)):
        exact = sums + n * 4 * u * s * factors[::2]
        check_short(bits, np.full((n, 64), u), np.full((n, 64), s), factors, sums, exact)


def check_short(bits: int, u: Array, s: Array, factors: Array, sums: Array, exact: Array, first: Any = None) -> None:
    """The products of u and s, [n, 64], added to sums modulo 2**32."""
    begins, sums = first is not None, sums.astype(np.int32)
    shorts = [v.astype(np.int16) for v in (factors, first if begins else factors)]
    given = (u.astype(np.uint8), s.astype(np.int8), *shorts)
    short(bits, len(u), begins)(sums.ctypes.data, *(v.ctypes.data for v in given))
    assert np.array_equal(sums, exact.astype(np.int32))


def test_each_byte_is_multiplied_by_its_own() -> None:
    for i, j in product(range(64), range(64)):
        u, s = np.zeros((1, 64)), np.zeros((1, 64))
        u[0, i], s[0, j] = 200, -100
        check(u, s, 8)
