"""Bits of bytes move alike in each way that a CPU has for it: shift and mask, or one product with a matrix."""

import numpy as np
import pytest
from llvmlite import ir

from kquants.compiler.cpu import has
from kquants.simd import arrange_bits
from support.cpus import AVX2, pretended, python, skip_without
from support.kernels import compiled
from support.moved_bits import BYTES, check

ORDERS = [(4, 5, None, None, 0, 1, None, None), (7, 6, 5, 4, 3, 2, 1, 0)]


@pytest.mark.skipif(not (has("gfni") and has("avx2")), reason="this CPU has no GFNI")
@pytest.mark.parametrize("size", [64, 32])
@pytest.mark.parametrize("order", ORDERS)
def test_bits_are_arranged_by_an_order(size: int, order: tuple[int | None, ...]) -> None:
    module = ir.Module()
    pointer, bytes_ = ir.IntType(8).as_pointer(), ir.VectorType(ir.IntType(8), size)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 2), "f")
    b = ir.IRBuilder(function.append_basic_block())
    source, target = (b.bitcast(p, bytes_.as_pointer()) for p in function.args)
    for k in range(256 // size):
        place = ir.IntType(32)(k)
        b.store(arrange_bits(b, b.load(b.gep(source, [place]), align=1), order), b.gep(target, [place]), align=1)
    b.ret_void()
    result = np.empty(256, np.uint8)
    compiled(module, 2)(BYTES.ctypes.data, result.ctypes.data)
    bits = ((BYTES >> bit & 1) << to for to, bit in enumerate(order) if bit is not None)
    assert np.array_equal(result, sum(bits, np.zeros_like(BYTES)))


def test_bits_move_and_all_others_are_gone() -> None:
    check((512 if has("avx512bw") else 256) if has("gfni") and has("avx2") else 0)


@pytest.mark.cpus
@pytest.mark.parametrize(("features", "width"), [((*AVX2, "gfni"), 256), (AVX2, 0)])
def test_bits_move_on_lesser_cpus(features: tuple[str, ...], width: int) -> None:
    skip_without(*features)
    code = f"from support.moved_bits import check; check({width})"
    python("-c", code, **pretended("x86-64", features))


@pytest.mark.cpus
@pytest.mark.parametrize("features", [(*AVX2, "gfni"), AVX2])
def test_bytes_are_negative_where_bits_are_set_and_none_is_zero(features: tuple[str, ...]) -> None:
    skip_without(*features)
    python("-c", "from support.moved_bits import check_negative; check_negative()", **pretended("x86-64", features))
