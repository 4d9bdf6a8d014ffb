"""Look-ups in tables that are longer than a vector: of bytes by permutations (AVX-512 VBMI), of words in memory."""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kquants.compiler import cpu
from kquants.simd.memory import at, load, times
from kquants.simd.vectors import I8_64, I32, call, computed_here, opaque

_BYTE, _INT, _LONG = (ir.IntType(n) for n in (8, 32, 64))

HAS_BYTE_PERMUTATIONS = cpu.has("avx512vbmi") and cpu.has("gfni")
"""Whether instructions permute the bytes of two vectors, select 8 bits from any of 64, and rearrange those of a byte.

The only CPU with VBMI that has no GFNI is Cannon Lake, of which few were made.
"""


def bits_from(b: ir.IRBuilder, v: Any, starts: Sequence[int]) -> Any:
    """Of 64 bytes: byte i is the 8 bits from bit `starts[i]` on of the eight bytes it is among, round their end. Needs
    VBMI."""
    places = ir.Constant(I8_64.vector, [start % 64 for start in starts])
    return call(b, "llvm.x86.avx512.pmultishift.qb.512", I8_64.vector, places, v)


def in_lanes(*starts: int) -> list[int]:
    """`bits_from`'s starts if those of the four bytes of each 32-bit lane are counted from the lane's own bit 0."""
    return [32 * (lane % 2) + start for lane in range(16) for start in starts]


def look_up_64(b: ir.IRBuilder, table: Sequence[int], index: Any) -> Any:
    """Each of 64 bytes looked up in a table whose length is a power of two up to 64, by as many of its low bits. Needs
    VBMI."""
    values = ir.Constant(I8_64.vector, [value % 256 for value in table] * (64 // len(table)))
    return call(b, "llvm.x86.avx512.permvar.qi.512", I8_64.vector, values, index)


def look_up_long(
    b: ir.IRBuilder, table: Sequence[int], indices: Sequence[Any], high: Sequence[Sequence[Any]]
) -> list[Any]:
    """Each byte of some vectors of 64 looked up in a table of 128 · 2^n unsigned bytes. Needs VBMI.

    An index has its lower seven bits in `indices`; `high` has masks for the others, of each vector the lowest first.
    """
    parts = [ir.Constant(I8_64.vector, list(table[i : i + 64])) for i in range(0, len(table), 64)]
    waiting: list[list[Any]] = [[] for _ in indices]
    for i, pair in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        for index, masks, found in zip(indices, high, waiting, strict=True):
            v = call(b, "llvm.x86.avx512.vpermi2var.qi.512", I8_64.vector, pair[0], index, pair[1])
            # Of two results, or of two that have been joined, one is right: as soon as there are two, they are joined.
            for level in range((i + 1 & ~i).bit_length() - 1):
                v = b.select(masks[level], v, found.pop())
            # LLVM would look up one vector after the other, and load the table again for each.
            found.append(computed_here(b, v))
    return [v for (v,) in waiting]


def words_in_memory(b: ir.IRBuilder, name: str, words: Sequence[int]) -> Any:
    """The address of a table of 32-bit words, of that name in all kernels."""
    values = ir.Constant(ir.ArrayType(_INT, len(words)), list(words))
    table = b.module.globals.get(name) or cgutils.global_constant(b.module, name, values)
    return b.ptrtoint(table, _LONG)


def look_up_words(b: ir.IRBuilder, table: Any, index: Any, stride: int, first: int) -> Any:
    """Of a table at an address, word stride · i + first for the index i in each lane, 16 int32.

    Word by word: gathers take longer, or much longer, on most CPUs without VBMI.
    """
    found = ir.Constant(I32.vector, ir.Undefined)
    for lane, i in enumerate(_as_scalars(b, index)):
        found = b.insert_element(found, load(b, at(b, table, times(b, i, 4 * stride), 4 * first), _INT), _INT(lane))
    return found


def _as_scalars(b: ir.IRBuilder, v: Any) -> list[Any]:
    """The lanes of 16 unsigned int32 as int64."""
    if not cpu.is_x86():
        return [b.zext(b.extract_element(v, _INT(i)), _LONG) for i in range(16)]
    # By way of memory: taking a lane out of a vector are two instructions, loading it is one.
    slot = cgutils.alloca_once(b, v.type)
    b.store(v, slot)
    address = opaque(b, b.ptrtoint(slot, _LONG))
    return [b.zext(load(b, at(b, address, 4 * i), _INT), _LONG) for i in range(16)]
