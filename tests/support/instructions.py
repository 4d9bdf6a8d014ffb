"""What instructions of other CPUs do, written for LLVM with what an x86 CPU with AVX2 has.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; Arm Architecture Reference Manual.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kquants.simd import BF16_PAIRS, F32, call, joined, shuffle, splat, split

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(n) for n in (8, 16, 32, 64))
_B128, _B256, _B512 = (ir.VectorType(_BYTE, n) for n in (16, 32, 64))
_I128, _I256, _I512 = (ir.VectorType(_INT, n) for n in (4, 8, 16))
_S512 = ir.VectorType(_SHORT, 32)

Value = Any


def _adjacent_sums(b: ir.IRBuilder, v: Value, count: int) -> Value:
    """The sums of each `count` adjacent lanes."""
    total, *others = (shuffle(b, v, v, range(k, v.type.count, count)) for k in range(count))
    for other in others:
        total = b.add(total, other)
    return total


def _lanes(b: ir.IRBuilder, v: Value, element: ir.Type) -> Value:
    """The same bytes in lanes of another size."""
    return b.bitcast(v, ir.VectorType(element, v.type.count * v.type.element.width // element.width))


def _products(b: ir.IRBuilder, x: Value, y: Value, element: ir.Type, unsigned: bool = False) -> Value:
    """Products of lanes, as int32; x may be unsigned."""
    x, y = (_lanes(b, v, element) for v in (x, y))
    ints = ir.VectorType(_INT, x.type.count)
    return b.mul((b.zext if unsigned else b.sext)(x, ints), b.sext(y, ints))


def _vpdpbusd(b: ir.IRBuilder, sums: Value, u: Value, s: Value) -> Value:
    return b.add(sums, _adjacent_sums(b, _products(b, u, s, _BYTE, unsigned=True), 4))


def _vpdpwssd(b: ir.IRBuilder, sums: Value, x: Value, y: Value) -> Value:
    return b.add(sums, _adjacent_sums(b, _products(b, x, y, _SHORT), 2))


def _vpmaddwd(b: ir.IRBuilder, x: Value, y: Value) -> Value:
    return _adjacent_sums(b, _products(b, x, y, _SHORT), 2)


def _saturated(b: ir.IRBuilder, v: Value) -> Value:
    """Int32 as int16, the nearest ones."""
    for within, bound in (("<", 2**15 - 1), (">", -(2**15))):
        most = ir.Constant(v.type, [bound] * v.type.count)
        v = b.select(b.icmp_signed(within, v, most), v, most)
    return b.trunc(v, ir.VectorType(_SHORT, v.type.count))


def _vpmaddubsw(b: ir.IRBuilder, u: Value, s: Value) -> Value:
    return _saturated(b, _adjacent_sums(b, _products(b, u, s, _BYTE, unsigned=True), 2))


def _vpshufb(b: ir.IRBuilder, table: Value, index: Value) -> Value:
    halves = zip(split(b, table, 2), split(b, index, 2), strict=True)
    return joined(b, [call(b, "llvm.x86.avx2.pshuf.b", _B256, *half) for half in halves])


def _vpermb(b: ir.IRBuilder, table: Value, index: Value) -> Value:
    """The low six bits of the index count: the upper two of them choose one of four tables of 16."""
    low, upper = (b.and_(index, ir.Constant(_B512, [bits] * 64)) for bits in (15, 48))
    made = ir.Constant(_B512, None)
    for first in range(0, 64, 16):
        sixteen = shuffle(b, table, table, [*range(first, first + 16)] * 4)
        is_here = b.icmp_unsigned("==", upper, ir.Constant(_B512, [first] * 64))
        made = b.select(is_here, _vpshufb(b, sixteen, low), made)
    return made


def _vpermi2b(b: ir.IRBuilder, first: Value, index: Value, second: Value) -> Value:
    """The low seven bits of the index count: bit 6 chooses one of two tables of 64."""
    in_second = b.icmp_unsigned("!=", b.and_(index, ir.Constant(_B512, [64] * 64)), ir.Constant(_B512, None))
    return b.select(in_second, _vpermb(b, second, index), _vpermb(b, first, index))


def _tbl(b: ir.IRBuilder, table: Value, index: Value) -> Value:
    """Where the index is beyond the table there is 0, as pshufb has it where the highest bit is set."""
    beyond = b.icmp_unsigned(">", index, ir.Constant(_B128, [15] * 16))
    index = b.select(beyond, ir.Constant(_B128, [128] * 16), index)
    return call(b, "llvm.x86.ssse3.pshuf.b.128", _B128, table, index)


def _vpmultishiftqb(b: ir.IRBuilder, starts: Value, words: Value) -> Value:
    """Each byte becomes the 8 bits from bit `start` on of the eight bytes it is among, round their end."""
    starts, words = (_lanes(b, v, _LONG) for v in (starts, words))
    kind, made = words.type, ir.Constant(words.type, None)
    for bit in range(0, 64, 8):
        up = splat(b, _LONG(bit), 8)
        start = b.and_(b.lshr(starts, up), splat(b, _LONG(63), 8))
        byte = b.and_(call(b, "llvm.fshr.v8i64", kind, words, words, start), splat(b, _LONG(255), 8))
        made = b.or_(made, b.shl(byte, up))
    return _lanes(b, made, _BYTE)


def _vgf2p8affineqb(b: ir.IRBuilder, x: Value, matrix: Value, added: Value) -> Value:
    """Bit i of a byte is the parity of what it shares with byte 7 - i of its eight of the matrix; plus a constant."""
    kind, n = x.type, x.type.count
    made = splat(b, added, n)
    for bit in range(8):
        row = shuffle(b, matrix, matrix, [i // 8 * 8 + 7 - bit for i in range(n)])
        parity = b.and_(call(b, f"llvm.ctpop.v{n}i8", kind, b.and_(x, row)), splat(b, _BYTE(1), n))
        made = b.xor(made, b.shl(parity, splat(b, _BYTE(bit), n)))
    return made


def _vdpbf16ps(b: ir.IRBuilder, sums: Value, x: Value, y: Value) -> Value:
    """Second of each pair first; denormals are 0, what goes in and what comes out."""
    x, y, sixteen = b.bitcast(x, _I512), b.bitcast(y, _I512), ir.Constant(_I512, [16] * 16)
    for take in (lambda v: b.shl(b.lshr(v, sixteen), sixteen), lambda v: b.shl(v, sixteen)):
        factors = (_float_without_denormals(b, take(v)) for v in (x, y))
        before = _float_without_denormals(b, b.bitcast(sums, _I512))
        sums = call(b, "llvm.fma.v16f32", F32.vector, *factors, before)
    return _float_without_denormals(b, b.bitcast(sums, _I512))


def _float_without_denormals(b: ir.IRBuilder, bits: Value) -> Value:
    exponents, sign = (ir.Constant(_I512, [mask] * 16) for mask in (0x7F800000, 0x80000000))
    is_denormal = b.icmp_unsigned("==", b.and_(bits, exponents), ir.Constant(_I512, None))
    return b.bitcast(b.select(is_denormal, b.and_(bits, sign), bits), F32.vector)


def _vcvtne2ps2bf16(b: ir.IRBuilder, high: Value, low: Value) -> Value:
    """Rounded to the nearest, ties to even; a NaN stays one."""

    def upper(v: Value) -> Value:
        bits = b.bitcast(_float_without_denormals(b, b.bitcast(v, _I512)), _I512)
        sixteen, one, less, quiet = (ir.Constant(_I512, [n] * 16) for n in (16, 1, 0x7FFF, 0x40))
        top = b.lshr(bits, sixteen)
        rounded = b.lshr(b.add(bits, b.add(less, b.and_(top, one))), sixteen)
        chosen = b.select(b.fcmp_unordered("uno", v, v), b.or_(top, quiet), rounded)
        return b.trunc(chosen, ir.VectorType(_SHORT, 16))

    return b.bitcast(joined(b, [upper(low), upper(high)]), BF16_PAIRS)


def _sdot(b: ir.IRBuilder, sums: Value, x: Value, y: Value) -> Value:
    return b.add(sums, _adjacent_sums(b, _products(b, x, y, _BYTE), 4))


INSTRUCTIONS: dict[str, tuple[Callable[..., Value], ir.Type, list[ir.Type]]] = {
    "x86.avx512.vpdpbusd.256": (_vpdpbusd, _I256, [_I256] * 3),
    "x86.avx512.vpdpbusd.512": (_vpdpbusd, _I512, [_I512] * 3),
    "x86.avx512.vpdpwssd.256": (_vpdpwssd, _I256, [_I256] * 3),
    "x86.avx512.vpdpwssd.512": (_vpdpwssd, _I512, [_I512] * 3),
    "x86.avx512.pmaddubs.w.512": (_vpmaddubsw, _S512, [_B512] * 2),
    "x86.avx512.pmaddw.d.512": (_vpmaddwd, _I512, [_S512] * 2),
    "x86.avx512.pshuf.b.512": (_vpshufb, _B512, [_B512] * 2),
    "x86.avx512.permvar.qi.512": (_vpermb, _B512, [_B512] * 2),
    "x86.avx512.vpermi2var.qi.512": (_vpermi2b, _B512, [_B512] * 3),
    "x86.avx512.pmultishift.qb.512": (_vpmultishiftqb, _B512, [_B512] * 2),
    "x86.avx512bf16.dpbf16ps.512": (_vdpbf16ps, F32.vector, [F32.vector, BF16_PAIRS, BF16_PAIRS]),
    "x86.avx512bf16.cvtne2ps2bf16.512": (_vcvtne2ps2bf16, BF16_PAIRS, [F32.vector, F32.vector]),
    "x86.vgf2p8affineqb.256": (_vgf2p8affineqb, _B256, [_B256, _B256, _BYTE]),
    "x86.vgf2p8affineqb.512": (_vgf2p8affineqb, _B512, [_B512, _B512, _BYTE]),
    "aarch64.neon.sdot.v4i32.v16i8": (_sdot, _I128, [_I128, _B128, _B128]),
    "aarch64.neon.usdot.v4i32.v16i8": (_vpdpbusd, _I128, [_I128, _B128, _B128]),
    "aarch64.neon.tbl1.v16i8": (_tbl, _B128, [_B128] * 2),
}
"""By LLVM's name, after "llvm.": what does the same, its result and its operands."""
