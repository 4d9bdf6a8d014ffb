"""What this CPU can do at most: read memory, and multiply int8. Yardsticks for the kernels that compute.

They run as ops of a program, so that the same threads are measured in the same way as a model's. What they compute
is of no use; it is stored so that nothing of it can be left out.
"""

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.cpu import lowering
from kquants.compiler.decorators import Vector, inline, kernel
from kquants.layout import PEAK_PRODUCTS
from kquants.records import Int8PeakOp, ReadSumOp
from kquants.simd import I8_64, I32, as_tuple, define, fold, of_tuple, pointer, prefetch_once, store_i32
from kquants.simd.dot4 import start_dot4
from kquants.threadpool.interpreter import arguments_of

_AHEAD = 1024
"""Bytes that the prefetch runs ahead: 2048 were a little slower, 4096 by a tenth."""

_SUMS = {"AVX-512 VNNI": 12, "AVX-512": 3, "AVX2": 1, "SSSE3": 2, "Arm dot product": 3}.get(lowering(), 4)
"""Sums of one thread: enough to hide the latency of the product, few enough for the registers. Where products pass
through int16, so few that each sees whole chains of eight, as Q4_K's do."""

_BITS = 4
"""Of the factors: without VNNI the fewer bits they have, the faster they are multiplied. So no format's share of the
peak is more than all of it."""

_LONG = ir.IntType(64)

_read_sum_of, _int8_peak_of = arguments_of(ReadSumOp), arguments_of(Int8PeakOp)


@define(I32)
def _zero(b: ir.IRBuilder) -> Any:
    return ir.Constant(I32.vector, None)


def _forget_memory(b: ir.IRBuilder) -> None:
    """For all LLVM knows, memory is changed here: what it reads stays on its side of this."""
    b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)


@define(I32, types.int64)
def _load_line(b: ir.IRBuilder, address: Any) -> Any:
    """The 64 bytes at an address, asked for before anything that follows."""
    line = b.load(pointer(b, address, I32.vector), align=1)
    _forget_memory(b)
    return line


_add = define(I32, I32, I32)(lambda b, x, y: b.add(x, y))
_total = define(types.int32, I32)(lambda b, x: fold(b, x, b.add))


@inline
def _add_line(x: Vector, address: int) -> Vector:
    """Add 64 bytes, and ask for those that are read a little later.

    As lines that are read once: a Zen 5 reads 2 to 3 % faster so. (A Granite Rapids reads as fast if it is asked for
    each line into two levels.)
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
    """Arguments: ReadSumOp; a piece of memory a unit."""
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
    """PEAK_PRODUCTS products of 64 int8, in turn added to the sums."""
    dots, unsigned = [start_dot4(b, total, _BITS) for total in of_tuple(b, sums)], of_tuple(b, factors)
    for i in range(PEAK_PRODUCTS):
        place = i % _SUMS
        if place == 0:
            # Or else LLVM would keep products, or merge several. One load for each turn costs nothing; with one
            # for each product the CPU was at a third of its peak.
            _forget_memory(b)
            signed = _load(b, address, 0)
        dots[place].add(unsigned[place], signed)
    return as_tuple(b, [dot.total() for dot in dots])


@define(types.int32, _ALL)
def _total_of_all(b: ir.IRBuilder, sums: Any) -> Any:
    return fold(b, reduce(b.add, of_tuple(b, sums)), b.add)


@kernel("int8_peak")
def int8_peak(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Multiply int8 as fast as it goes; a unit is so many rounds of PEAK_PRODUCTS products of 64.

    Arguments: Int8PeakOp, with factors for `_SUMS` sums.
    """
    given = _int8_peak_of(op)
    factors = _load_factors(given.factors)
    for unit in range(first, last):
        sums = _zeros()
        for _ in range(given.rounds):
            sums = _products(sums, factors, given.factors)
        store_i32(given.sums + 4 * unit, _total_of_all(sums))
