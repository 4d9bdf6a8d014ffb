"""Look-ups in tables that are longer than a vector: of bytes by permutations (AVX-512 VBMI), of words in memory."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from kquants.compiler import cpu
from kquants.simd.memory import at, load, times
from kquants.simd.vectors import I8_64, I32, call, computed_here, joined, opaque, shuffle, splat

_INT, _LONG = ir.IntType(32), ir.IntType(64)

HAS_BYTE_PERMUTATIONS = cpu.has("avx512vbmi") and cpu.has("gfni")
"""Whether instructions permute the bytes of two vectors, select 8 bits from any of 64, and rearrange those of a byte.

The only CPU with VBMI that has no GFNI is Cannon Lake, of which few were made.
"""


def bits_from(b: ir.IRBuilder, v: Any, starts: Sequence[int]) -> Any:
    """64 bytes: byte i is 8 bits of the 64-bit word of v in which byte i lies, from bit `starts[i]` of the word on; bit
    63 is followed by bit 0. Needs VBMI."""
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


def look_up_128(b: ir.IRBuilder, table: Sequence[int], index: Any) -> Any:
    """Each of 64 bytes looked up in a table of 128 unsigned bytes, by its lower seven bits. Needs VBMI."""
    first, second = (ir.Constant(I8_64.vector, list(part)) for part in (table[:64], table[64:]))
    return call(b, "llvm.x86.avx512.vpermi2var.qi.512", I8_64.vector, first, index, second)


def look_up_long(
    b: ir.IRBuilder, table: Sequence[int], indices: Sequence[Any], high: Sequence[Sequence[Any]]
) -> list[Any]:
    """Each byte of some vectors of 64 looked up in a table of 128 · 2^n unsigned bytes. Needs VBMI.

    An index has its lower seven bits in `indices`; `high` has masks for the others, of each vector the lowest first.
    """
    waiting: list[list[Any]] = [[] for _ in indices]
    for i in range(len(table) // 128):
        for index, masks, found in zip(indices, high, waiting, strict=True):
            v = look_up_128(b, table[128 * i : 128 * i + 128], index)
            # Of two results, or of two that have been joined, one is right: as soon as there are two, they are joined.
            for level in range((i + 1 & ~i).bit_length() - 1):
                v = b.select(masks[level], v, found.pop())
            # LLVM would look up one vector after the other, and load the table again for each.
            found.append(computed_here(b, v))
    return [v for (v,) in waiting]


def words_in_memory(b: ir.IRBuilder, words: Sequence[int]) -> Any:
    """The address of a table of 32-bit words. A module has each table once: its name is made of what it holds."""
    name = f"words_{sha256(np.array(words, np.uint32).tobytes()).hexdigest()}"
    values = ir.Constant(ir.ArrayType(_INT, len(words)), list(words))
    return b.ptrtoint(b.module.globals.get(name) or cgutils.global_constant(b.module, name, values), _LONG)


def on_stack(b: ir.IRBuilder, vectors: Sequence[Any]) -> Any:
    """The address of vectors on the stack, side by side.

    Taking a lane out of a vector are two instructions, loading it is one.
    """
    kind = vectors[0].type
    slot = cgutils.alloca_once(b, ir.ArrayType(kind, len(vectors)))
    slot.align = 32
    for i, v in enumerate(vectors):
        b.store(v, b.gep(slot, [_INT(0), _INT(i)]), align=32)
    return opaque(b, b.ptrtoint(slot, _LONG))  # LLVM would take them out


class RowTable:
    """A table in memory whose entries, of `count` words of 32 bits, one or two, are put side by side. Needs AVX2."""

    def __init__(self, b: ir.IRBuilder, words: Sequence[int], count: int) -> None:
        self._b, self._count, self._table = b, count, words_in_memory(b, words)

    def look_up(self, indices: Sequence[Any]) -> Any:
        """32 bytes: the entries of 8 / count indices, int64."""
        b, entry = self._b, ir.IntType(32 * self._count)
        places = (at(b, self._table, times(b, index, 4 * self._count)) for index in indices)
        # Loaded to all lanes, which is no work for the ports that permute, and then blended.
        found, *others = (computed_here(b, splat(b, load(b, place, entry), len(indices))) for place in places)
        for lane, v in enumerate(others, 1):
            lanes = [i + len(indices) * (i == lane) for i in range(len(indices))]
            found = shuffle(b, found, v, lanes)
        return b.bitcast(found, ir.VectorType(ir.IntType(8), 32))


class WordTable:
    """A table in memory whose entries are `count` words of 32 bits, one or two."""

    def __init__(self, b: ir.IRBuilder, words: Sequence[int], count: int = 1) -> None:
        self._b, self._count, self._table = b, count, words_in_memory(b, words)
        self._slot = cgutils.alloca_once(b, I32.vector)

    def look_up(self, index: Any) -> list[Any]:
        """The words of the entry of each of 16 indices, int32: all first words, then all second ones.

        Entry by entry: gathers take longer, or much longer, on most CPUs without VBMI.
        """
        entry, in_register = ir.IntType(32 * self._count), 4 // self._count
        lanes, registers = self._as_scalars(index), list[Any]()
        for first in range(0, 16, in_register):
            v = ir.Constant(ir.VectorType(entry, in_register), ir.Undefined)
            for k in range(in_register):
                place = at(self._b, self._table, times(self._b, lanes[first + k], 4 * self._count))
                v = self._b.insert_element(v, load(self._b, place, entry), _INT(k))
            registers.append(self._b.bitcast(v, ir.VectorType(_INT, 4)))
        if self._count == 1:
            return [joined(self._b, registers)]
        pairs = list(zip(registers[::2], registers[1::2], strict=True))
        return [joined(self._b, [shuffle(self._b, x, y, range(k, 8, 2)) for x, y in pairs]) for k in (0, 1)]

    def _as_scalars(self, index: Any) -> list[Any]:
        """The lanes as int64."""
        b = self._b
        if not cpu.is_x86():
            return [b.zext(b.extract_element(index, _INT(i)), _LONG) for i in range(16)]
        # By way of memory: taking a lane out of a vector are two instructions, loading it is one.
        b.store(index, self._slot)
        place = opaque(b, b.ptrtoint(self._slot, _LONG))
        return [b.zext(load(b, at(b, place, 4 * i), _INT), _LONG) for i in range(16)]
