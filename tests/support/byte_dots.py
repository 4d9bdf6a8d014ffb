"""Products of bytes in LLVM's code."""

from llvmlite import ir

from kquants.simd.dot4 import start_dot4

POINTER = ir.IntType(8).as_pointer()


def written(bits: int, signed: bool, products: int) -> ir.Module:
    """LLVM's code of `f(sums, u, s)`: adds dot products of `products` pairs of 64-byte vectors to int32[16] at sums."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 3), "f")
    b = ir.IRBuilder(function.append_basic_block())
    ints, bytes_ = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(8), 64)
    sums, u, s = (b.bitcast(p, t.as_pointer()) for p, t in zip(function.args, (ints, bytes_, bytes_), strict=True))
    dot = start_dot4(b, b.load(sums, align=1), bits, signed)
    for k in range(products):
        dot.add(*(b.load(b.gep(p, [ir.IntType(32)(k)]), align=1) for p in (u, s)))
    b.store(dot.total(), sums, align=1)
    b.ret_void()
    return module
