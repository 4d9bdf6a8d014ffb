"""Without FMA and F16C, results have the bits that these instructions give, for scalars and vectors."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from kquants.compiler import old_x86
from support.kernels import compiled

Array = NDArray[Any]
FLOAT, SHORT = ir.FloatType(), ir.IntType(16)
LANES = [0, 4, 8, 16]


def run(emit: Callable[..., Any], result: ir.Type, lanes: int, *given: Array) -> Array:
    """`emit` of all elements of the arrays, by scalars (lanes 0) or by vectors."""
    kinds = [FLOAT if a.dtype == np.float32 else SHORT for a in given]
    wide = [ir.VectorType(t, lanes) if lanes else t for t in (*kinds, result)]
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [t.as_pointer() for t in wide]), "f")
    b = ir.IRBuilder(function.append_basic_block())
    *sources, target = function.args
    b.store(emit(b, *(b.load(p, align=1) for p in sources)), target, align=1)
    b.ret_void()
    f = compiled(module, len(wide))
    out = np.zeros(given[0].shape, np.float32 if result == FLOAT else np.uint16)
    for i in range(0, len(out), lanes or 1):
        f(*(a[i:].ctypes.data for a in (*given, out)))
    return out


def same_bits(a: Array, b: Array) -> bool:
    nan = np.isnan(a) & np.isnan(b)
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | nan).all())


def nearest(exact: Fraction) -> np.float32:
    """A number rounded to float32, ties to even."""
    near = np.float32(float(exact))  # rounded twice: at most one step off
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))


@pytest.mark.parametrize("lanes", LANES)
def test_fused_products_are_rounded_once(lanes: int) -> None:
    rng = np.random.default_rng(1)
    n = 4096
    x, y, z = (rng.standard_normal(n).astype(np.float32) * 2.0 ** rng.integers(-30, 30, n) for _ in range(3))
    # Sums that lie at, or just beside, the middle of two float32: what rounding twice gets wrong.
    x[: n // 2], y[: n // 2] = 1 + 2.0**-12, 1 + rng.integers(-4, 5, n // 2) * 2.0**-12
    z[: n // 2] = rng.choice([-1, 1], n // 2) * 2.0 ** rng.integers(-80, 40, n // 2)
    x, y, z = (v.astype(np.float32) for v in (x, y, z))
    wanted = [
        nearest(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in zip(x, y, z, strict=True)
    ]
    assert same_bits(run(old_x86.fma, FLOAT, lanes, x, y, z), np.array(wanted, np.float32))


@pytest.mark.parametrize("lanes", LANES)
def test_fused_products_at_the_edges(lanes: int) -> None:
    edges = np.array([0.0, -0.0, 1e-45, -1e-38, 1, 3e38, np.inf, np.nan], np.float32)
    x, y, z = (v.astype(np.float32).ravel() for v in np.meshgrid(edges, edges, edges))
    with np.errstate(all="ignore"):
        # Products of these are exact in float64, and so are the sums but for one bit that float32 has no room for.
        wanted = (x.astype(np.float64) * y + z).astype(np.float32)
    got = run(old_x86.fma, FLOAT, lanes, x, y, z)
    assert same_bits(got, wanted)


@pytest.mark.parametrize("lanes", LANES)
def test_every_half_becomes_its_float(lanes: int) -> None:
    halves = np.arange(2**16, dtype=np.uint16)
    assert same_bits(run(old_x86.half_to_float, FLOAT, lanes, halves), halves.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("lanes", LANES)
def test_floats_become_the_nearest_half(lanes: int) -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].astype(np.float32)
    between = (halves + np.roll(halves, 1)) / 2  # ties, for all neighbours
    near = [np.nextafter(between, np.float32(side)) for side in (-np.inf, np.inf)]
    edges = np.array([65519.99, 65520, 1e5, np.inf, 1e-8, 2.0**-25, 2.0**-25 * 1.01, 1e-45], np.float32)
    x = np.concatenate([halves, between, *near, edges, -edges])
    x = x[: len(x) // 16 * 16].astype(np.float32)
    with np.errstate(over="ignore"):
        assert np.array_equal(run(old_x86.float_to_half, SHORT, lanes, x), x.astype(np.float16).view(np.uint16))
    nan = run(old_x86.float_to_half, SHORT, lanes, np.full(16, np.nan, np.float32)).view(np.float16)
    assert np.isnan(nan).all()
