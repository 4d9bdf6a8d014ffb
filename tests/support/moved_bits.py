"""Bits that move within their bytes, each way that there is to move some, or become the signs of bytes."""

from itertools import product

import numpy as np
from llvmlite import ir

from kquants.simd import are_negative, move_bits
from support.kernels import compiled

MOVES = [
    (first, count, to) for first, to, count in product(range(8), range(8), range(1, 9)) if max(first, to) + count <= 8
]
BYTES = np.arange(256, dtype=np.uint8)


def written(size: int) -> ir.Module:
    """LLVM's code of `f(source, target)`: applies each of MOVES to 256 bytes, in vectors of `size` bytes."""
    module = ir.Module()
    pointer, bytes_ = ir.IntType(8).as_pointer(), ir.VectorType(ir.IntType(8), size)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 2), "f")
    b = ir.IRBuilder(function.append_basic_block())
    source, target = (b.bitcast(p, bytes_.as_pointer()) for p in function.args)
    for i, move in enumerate(MOVES):
        for k in range(256 // size):
            v = b.load(b.gep(source, [ir.IntType(32)(k)]), align=1)
            b.store(move_bits(b, v, *move), b.gep(target, [ir.IntType(32)(256 // size * i + k)]), align=1)
    b.ret_void()
    return module


def check(width: int) -> None:
    """Compare all MOVES with NumPy. LLVM must use GF2 matrices in vectors of `width` bits, or none where it is 0."""
    for size in (64, 32):
        module, result = written(size), np.empty((len(MOVES), 256), np.uint8)
        matrix = min(width, 8 * size)
        assert [w for w in (256, 512) if f"vgf2p8affineqb.{w}" in str(module)] == [matrix] * bool(matrix)
        compiled(module, 2)(BYTES.ctypes.data, result.ctypes.data)
        for (first, count, to), found in zip(MOVES, result, strict=True):
            assert np.array_equal(found, (BYTES >> first & (1 << count) - 1) << to), (first, count, to)


def check_negative() -> None:
    """Compare `are_negative` with NumPy: each four of 32 bytes, which have any value in turn."""
    module, firsts = ir.Module(), range(0, 32, 4)
    pointer, bytes_ = ir.IntType(8).as_pointer(), ir.VectorType(ir.IntType(8), 32)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 2), "f")
    b = ir.IRBuilder(function.append_basic_block())
    source, target = (b.bitcast(p, bytes_.as_pointer()) for p in function.args)
    v = b.load(source, align=1)
    for i, first in enumerate(firsts):
        b.store(are_negative(b, v, first), b.gep(target, [ir.IntType(32)(i)]), align=1)
    b.ret_void()
    run, result = compiled(module, 2), np.empty((len(firsts), 32), np.int8)
    for given in BYTES.reshape(8, 32):
        run(given.ctypes.data, result.ctypes.data)
        assert result.all(), "a product with 0 would be 0"
        assert np.array_equal(result.reshape(-1) < 0, np.unpackbits(given, bitorder="little") == 1)
