"""Bits of bytes move alike in each way that a CPU has for it: shift and mask, or one product with a matrix."""

import ctypes
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray
from test_kquants_cpus import AVX2, python, skip_without

from kquants import jit
from kquants.simd import move_bits

MOVES = [
    (first, count, to) for first, to, count in product(range(8), range(8), range(1, 9)) if max(first, to) + count <= 8
]
BYTES = np.arange(256, dtype=np.uint8)


def moved() -> NDArray[Any]:
    """What `move_bits` makes of all bytes, for each of MOVES."""
    module = ir.Module()
    pointer, bytes_ = ir.IntType(8).as_pointer(), ir.VectorType(ir.IntType(8), 64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 2), "f")
    b = ir.IRBuilder(function.append_basic_block())
    source, target = (b.bitcast(p, bytes_.as_pointer()) for p in function.args)
    for i, move in enumerate(MOVES):
        for k in range(4):
            v = b.load(b.gep(source, [ir.IntType(32)(k)]), align=1)
            b.store(move_bits(b, v, *move), b.gep(target, [ir.IntType(32)(4 * i + k)]), align=1)
    b.ret_void()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), jit.target_machine())
    engine.finalize_object()
    result = np.empty((len(MOVES), 256), np.uint8)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(engine.get_function_address("f"))
    call(BYTES.ctypes.data, result.ctypes.data)
    return result


def test_bits_move_and_all_others_are_gone() -> None:
    for (first, count, to), found in zip(MOVES, moved(), strict=True):
        assert np.array_equal(found, (BYTES >> first & (1 << count) - 1) << to), (first, count, to)


@pytest.mark.parametrize("features", [(*AVX2, "gfni"), AVX2], ids=["a matrix of 256 bits", "no matrix"])
def test_bits_move_on_lesser_cpus(features: tuple[str, ...]) -> None:
    skip_without(*features)
    code = "import test_kquants_bits as t; t.test_bits_move_and_all_others_are_gone()"
    python("-c", code, NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES=",".join(f"+{f}" for f in features))
