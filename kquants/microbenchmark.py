"""Microbenchmarks: kernels that read memory, or multiply int8, as fast as this CPU can.

They run as ops of a program, on the same threads and in the same way as the ops of a model. Their results are stored
only so that LLVM cannot leave out the computation.
"""

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import PEAK_PRODUCTS
from kquants.records import Int8PeakOp, ReadSumOp
from kquants.simd import I8_64, I32, as_tuple, define, of_tuple, pointer, prefetch_once, reduce_lanes, store_i32
from kquants.simd.dot4 import start_dot4
from kquants.threadpool.interpreter import arguments_of
from kquants.tuning import tuning

_AHEAD = 1024
"""Bytes that the prefetch runs ahead. (2048: a little slower; 4096: a tenth slower.)"""

_SUMS = tuning().int8_peak_sums
"""Sums of one thread."""

_BITS = 4
"""Bits of the factors. Without VNNI, factors of fewer bits are multiplied faster; with these, no format exceeds the
peak."""

_LONG = ir.IntType(64)

_read_sum_of, _int8_peak_of = arguments_of(ReadSumOp), arguments_of(Int8PeakOp)


@define(I32)
def _zero(b: ir.IRBuilder) -> Any:
    return ir.Constant(I32.vector, None)


def _memory_barrier(b: ir.IRBuilder) -> None:
    """A compiler barrier: LLVM moves no memory access across it."""
    b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)


@define(I32, types.int64)
def _load_line(b: ir.IRBuilder, address: Any) -> Any:
    """The 64 bytes at an address, loaded before anything that follows."""
    line = b.load(pointer(b, address, I32.vector), align=1)
    _memory_barrier(b)
    return line


_add = define(I32, I32, I32)(lambda b, x, y: b.add(x, y))
_total = define(types.int32, I32)(lambda b, x: reduce_lanes(b, x, b.add))


@inline
def _add_line(x: Vector, address: int) -> Vector:
    """Add 64 bytes, and prefetch the line that is read `_AHEAD` bytes later, as a line that is read once.

    Measured on Zen 5: 2 to 3 % faster than with a prefetch of a line that stays. (On Granite Rapids, prefetching each
    line into two levels reads as fast.)
    """
    line = _load_line(address)  # before the prefetch 19.0 GB/s, after it 17.6 (one thread of a Sapphire Rapids)
    prefetch_once(address + _AHEAD)
    return _add(x, line)


@inline
def _read(address: int, nbytes: int) -> int:
    """The sum of all int32 in memory; `nbytes` is a multiple of 256."""
    one, two, three, four = _zero(), _zero(), _zero(), _zero()
    for at in range(address, address + nbytes, 256):
        one, two = _add_line(one, at), _add_line(two, at + 64)
        three, four = _add_line(three, at + 128), _add_line(four, at + 192)
    return _total(_add(_add(one, two), _add(three, four)))


@kernel("read_sum")
def read_sum(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Sum the int32 of memory. Arguments: ReadSumOp; a unit is a section of the memory."""
    given = _read_sum_of(op)
    for unit in range(first, last):
        store_i32(given.sums + 4 * unit, _read(given.address + unit * given.section_bytes, given.section_bytes))


_ALL = types.UniTuple(I32, _SUMS)
_FACTORS = types.UniTuple(I8_64, _SUMS)


def _load(b: ir.IRBuilder, address: Any, index: int) -> Any:
    return b.load(pointer(b, b.add(address, _LONG(64 * index)), I8_64.vector), align=1)


@define(_FACTORS, types.int64)
def _load_factors(b: ir.IRBuilder, address: Any) -> Any:
    return as_tuple(b, [_load(b, address, 1 + i) for i in range(_SUMS)])


@define(_ALL)
def _zeros(b: ir.IRBuilder) -> Any:
    return ir.Constant(ir.ArrayType(I32.vector, _SUMS), None)


@define(_ALL, _ALL, _FACTORS, types.int64)
def _products(b: ir.IRBuilder, sums: Any, factors: Any, address: Any) -> Any:
    """PEAK_PRODUCTS products of 64 int8, added to the sums round-robin."""
    dots, unsigned = [start_dot4(b, total, _BITS) for total in of_tuple(b, sums)], of_tuple(b, factors)
    for i in range(PEAK_PRODUCTS):
        place = i % _SUMS
        if place == 0:
            # The barrier keeps LLVM from reusing or merging products. One load per turn over the sums costs nothing;
            # with a load per product, the CPU reaches a third of its peak.
            _memory_barrier(b)
            signed = _load(b, address, 0)
        dots[place].add(unsigned[place], signed)
    return as_tuple(b, [dot.total() for dot in dots])


@define(types.int32, _ALL)
def _total_of_all(b: ir.IRBuilder, sums: Any) -> Any:
    return reduce_lanes(b, reduce(b.add, of_tuple(b, sums)), b.add)


@kernel("int8_peak")
def int8_peak(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Multiply int8 as fast as the CPU can.

    Arguments: Int8PeakOp, with factors for `_SUMS` sums. A unit is `rounds` rounds of PEAK_PRODUCTS products of 64.
    """
    given = _int8_peak_of(op)
    factors = _load_factors(given.factors)
    for unit in range(first, last):
        sums = _zeros()
        for _ in range(given.rounds):
            sums = _products(sums, factors, given.factors)
        store_i32(given.sums + 4 * unit, _total_of_all(sums))
