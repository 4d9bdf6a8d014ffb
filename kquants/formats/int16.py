"""Products of int16 by AMX tiles, which multiply bytes: of each value a low byte, unsigned, and a high one, signed.

Many rows of x are multiplied so by formats with super-blocks. Sub-block by sub-block, as vectors do it, the scaling
would take longer than the products. But a weight times its scale is an int16, as is a value of x times 2^e:

    A = Σ 2^e · scale · Σ (u - offset) · q_x = Σ (scale · (u - offset)) · (2^e · q_x)        over a super-block

(At most 128 · 32 and 8 · 127.) With both in two bytes, v = 256 · high + low, that is four products of bytes, and
nothing to scale before the end:

    A = 2^16 · Σ high · high + 2^8 · Σ (low · high + high · low) + Σ low · low

Each sum may be more than an int32 holds, but A is below 2^30, and the lower 32 bits are right. So these are the
integers, and the bits, of `kquants.matmul.super_blocks`. Weights are scaled when they are unpacked
(`kquants.matmul.int16_layouts`), x when it is quantized (`kquants.activations.super_quantized`).
"""

from llvmlite import ir

from kquants.compiler.cpu import has
from kquants.formats.packed_bytes import Value
from kquants.simd import opaque

_INT16S = ir.VectorType(ir.IntType(16), 32)


def int16_bytes_of(b: ir.IRBuilder, v: Value, factors: Value) -> tuple[Value, Value]:
    """64 signed bytes, each two of them times the same int16: the low bytes of the products, and the high ones."""
    eight, low_byte = (ir.Constant(_INT16S, [n] * 32) for n in (8, 0xFF))
    both = b.bitcast(v, _INT16S)
    even, odd = (b.mul(b.ashr(byte, eight), factors) for byte in (b.shl(both, eight), both))
    up, down = b.shl(odd, eight), b.lshr(even, eight)
    if has("avx512bw"):
        # LLVM would make shift and blend a permutation of two registers, which takes longer (a fifth of the unpacking).
        up, down = opaque(b, up), opaque(b, down)
    low, high = b.or_(b.and_(even, low_byte), up), b.or_(down, b.and_(odd, b.not_(low_byte)))
    return b.bitcast(low, v.type), b.bitcast(high, v.type)
