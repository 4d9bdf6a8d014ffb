"""Operations on bytes: bits, shifts, table look-ups."""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler import cpu
from kquants.simd.tables import bits_from, in_lanes, look_up_64
from kquants.simd.vectors import I8, I32, call, define, joined, shuffle, splat, split

_BYTE = ir.IntType(8)
_SHORTS = ir.VectorType(ir.IntType(16), 16)


and_i8 = define(I8, I8, types.int32)(lambda b, x, bits: b.and_(x, splat(b, b.trunc(bits, _BYTE), 32)))
or_i8 = define(I8, I8, I8)(lambda b, x, y: b.or_(x, y))
shift_left_i8 = define(I8, I8, types.int32)(lambda b, x, n: b.shl(x, splat(b, b.trunc(n, _BYTE), 32)))
shift_right_i8 = define(I8, I8, types.int32)(lambda b, x, n: b.lshr(x, splat(b, b.trunc(n, _BYTE), 32)))


def move_bits(b: ir.IRBuilder, v: Any, first: int, count: int, to: int) -> Any:
    """Move bits first … first + count - 1 of each of 64 or 32 bytes to the bits from `to` on; the other bits become
    0."""
    mask = ir.Constant(v.type, [(1 << count) - 1 << to] * v.type.count)
    if first == to:
        return b.and_(v, mask)
    if cpu.has("gfni") and cpu.has("avx2"):
        return arrange_bits(b, v, [first + bit - to if to <= bit < to + count else None for bit in range(8)])
    # x86 has no shift of bytes: lanes of several bytes are shifted, and bits from the next byte are masked.
    words = b.bitcast(v, I32.vector if v.type.count == 64 else _SHORTS)
    distance = ir.Constant(words.type, [abs(first - to)] * words.type.count)
    return b.and_(b.bitcast((b.lshr if first > to else b.shl)(words, distance), v.type), mask)


def arrange_bits(b: ir.IRBuilder, v: Any, order: Sequence[int | None]) -> Any:
    """Bytes whose bit i is bit `order[i]` of those of v, or 0 for None: one instruction. Only for CPUs with GFNI."""
    return _bit_parities(b, v, [0 if bit is None else 1 << bit for bit in order])


def _bit_parities(b: ir.IRBuilder, v: Any, masks: Sequence[int]) -> Any:
    """Bytes whose bit i is the parity of those of v with `masks[i]`: one instruction. Only for CPUs with GFNI."""
    count, size = v.type.count, min(v.type.count, 64 if cpu.has("avx512bw") else 32)
    # The bytes are multiplied by a bit matrix, whose last row is for bit 0.
    rows = [*reversed(masks)] * (count // 8)
    name, nothing = f"llvm.x86.vgf2p8affineqb.{8 * size}", _BYTE(0)
    pieces = zip(*(split(b, both, count // size) for both in (v, ir.Constant(v.type, rows))), strict=True)
    return joined(b, [call(b, name, piece.type, piece, matrix, nothing) for piece, matrix in pieces])


def with_parity(b: ir.IRBuilder, v: Any, first: int) -> Any:
    """Bits first … first + 6 of each of 64 bytes, moved to bit 0, with their parity as bit 7; `first` is 0 or 1."""
    if cpu.has("gfni") and cpu.has("avx2"):
        return _bit_parities(b, v, [*(1 << first + bit for bit in range(7)), 127 << first])
    seven = move_bits(b, v, first, 7, 0)
    four = b.xor(seven, move_bits(b, seven, 4, 3, 0))
    return b.or_(seven, look_up_nibble(b, tuple(n.bit_count() % 2 << 7 for n in range(16)), four, 0))


def _byte_shuffle(lanes: int) -> tuple[int, str] | None:
    """(Bytes that one instruction looks up in a table of 16, its name) for vectors of `lanes` bytes, if there is
    one."""
    if cpu.is_arm():
        return 16, "llvm.aarch64.neon.tbl1.v16i8"
    if cpu.has("avx512bw") and lanes == 64:
        return 64, "llvm.x86.avx512.pshuf.b.512"
    if cpu.has("avx2"):
        return 32, "llvm.x86.avx2.pshuf.b"
    return (16, "llvm.x86.ssse3.pshuf.b.128") if cpu.has("ssse3") else None


def look_up(b: ir.IRBuilder, table: tuple[int, ...], index: Any) -> Any:
    """Each byte of the index, 0 … 15, looked up in a table of 16 int8."""
    instruction = _byte_shuffle(index.type.count)
    if instruction is None:
        return _choose(b, table, index)
    size, name = instruction
    values = ir.Constant(ir.VectorType(_BYTE, size), [v % 256 for v in table] * (size // 16))
    return joined(b, [call(b, name, values.type, values, v) for v in split(b, index, index.type.count // size)])


def look_up_nibble(b: ir.IRBuilder, table: tuple[int, ...], v: Any, first: int) -> Any:
    """Bits first … first + 3 of each of 64 or 32 bytes, looked up in a table of 16 int8; `first` is 0 or 4."""
    if v.type.count < 64 or not cpu.has("avx512vbmi"):
        return look_up(b, table, move_bits(b, v, first, 4, 0))
    # Six bits of an index count, in a table of 64: four times the table, whatever the upper two are. (Measured on Zen 4
    # with AVX-512, weights in the caches: decode of MXFP4, IQ4_NL and IQ4_XS 4 % faster than with these bits masked.)
    words = b.bitcast(v, I32.vector)
    index = b.bitcast(b.lshr(words, ir.Constant(words.type, [first] * 16)), v.type)
    return look_up_64(b, table, index)


def _choose(b: ir.IRBuilder, table: tuple[int, ...], index: Any) -> Any:
    """The look-up by selects over the bits of the index: LLVM would make 16 single look-ups."""
    found = [ir.Constant(index.type, [value % 256] * index.type.count) for value in table]
    for bit in (1, 2, 4, 8):
        masked = b.and_(index, ir.Constant(index.type, [bit] * index.type.count))
        is_set = b.icmp_unsigned("!=", masked, ir.Constant(index.type, [0] * index.type.count))
        found = [b.select(is_set, odd, even) for even, odd in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def spread_bits(b: ir.IRBuilder, words: Any, first: int, to: int) -> Any:
    """Bits first … first + 3 of each 32-bit word, as bit `to` of its four bytes; 64 bytes."""
    kind, mask = words.type, ir.Constant(words.type, [1 << to] * 64)
    if cpu.has("avx512vbmi"):
        return b.and_(bits_from(b, words, in_lanes(*range(first - to, first - to + 4))), mask)
    return b.select(are_set(b, words, first), mask, ir.Constant(kind, None))


def are_set(b: ir.IRBuilder, words: Any, first: int) -> Any:
    """Whether bits first … first + 3 of each 32-bit word are set, all of them of one byte: a mask of 64 bytes."""
    bits = ir.Constant(words.type, [1 << (first + i) % 8 for i in range(4)] * 16)
    bit = b.and_(shuffle(b, words, words, [4 * (i // 4) + first // 8 for i in range(64)]), bits)
    return b.icmp_unsigned("!=", bit, ir.Constant(words.type, None))


def are_negative(b: ir.IRBuilder, v: Any, first: int) -> Any:
    """32 bytes, negative where the bit is set, positive elsewhere: bits of bytes first … first + 3 of v, 32 bytes.

    Needs AVX2. The four bytes are in one half of v.
    """
    half = first // 16 * 16
    both = shuffle(b, v, v, [half + i % 16 for i in range(32)])
    bits = ir.Constant(v.type, [1 << i % 8 for i in range(32)])
    spread = [16 * (i // 16) + first % 16 + i // 8 for i in range(32)]
    if cpu.has("gfni"):
        # The bits are multiplied by a matrix of eight bytes: 255 where the one bit is set in seven that are equal, and
        # bit 0 is added, which the eighth, 0, leaves alone.
        matrix = shuffle(b, both, ir.Constant(v.type, None), [32 if i % 8 == 7 else at for i, at in enumerate(spread)])
        return call(b, "llvm.x86.vgf2p8affineqb.256", v.type, bits, matrix, _BYTE(1))
    # 127 plus any bit is negative.
    masked = b.and_(shuffle(b, both, both, spread), bits)
    return b.add(masked, ir.Constant(v.type, [127] * 32))


def spread_pairs(b: ir.IRBuilder, words: Any, byte: int) -> Any:
    """Bits 2i and 2i + 1 of a byte of each 32-bit word as byte i; 64 bytes."""
    kind, zero, mask = words.type, ir.Constant(words.type, None), ir.Constant(words.type, [3] * 64)
    if cpu.has("avx512vbmi"):
        return b.and_(bits_from(b, words, in_lanes(*range(8 * byte, 8 * byte + 8, 2))), mask)
    lanes = [i + byte if i % 4 == 0 else 64 for i in range(64)]
    v = b.bitcast(shuffle(b, words, zero, lanes), I32.vector)
    for distance in (6, 12):  # bits 0 … 7 come to lie at 6 … 13, then both at 12 … 25
        v = b.or_(v, b.shl(v, ir.Constant(v.type, [distance] * 16)))
    return b.and_(b.bitcast(v, kind), mask)
