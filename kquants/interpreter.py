"""A program is a list of ops; every thread runs the same list over its share of the units of each op.

An op is a record of 16 int64:

    word   0        1      2              3     4     5 …
         [ kernel | units | units per row | rows | meet | arguments ]

It has `units + units per row · n` units of work, where n is word `rows` of the batch: 0 counts all rows, 1
those whose logits are wanted; where there are none it has no work. Each thread has a share of consecutive units,
which it takes in chunks from a counter: what it asks the memory for ahead is then what it needs next. Done with its
own, it takes from the others', so that fast cores do more. `meet` is 1 where an op needs what the ops before it
wrote: all threads meet there first.

A kernel finds three int64 at the beginning of its thread's scratch: the unit where the share ends that its chunk is of,
the number of the thread, and how many there are.

A batch is a record of int64 about its n rows (one row is one token of one sequence):

    word   0     1              2       3         4            5                6                7
         [ n | outputs count | tokens | tables | visible | output rows | rotations | page addresses ]

    tokens          int32[n]                  token ids
    tables          int64[n]                  address of the int32 page table of the row's sequence
    visible         int32[n]                  how many cells of its sequence the row sees, its own the last
    output rows     int32[outputs count]      rows whose logits are wanted
    rotations       float32[n, rope_dim/2, 2] cosine and sine of each pair's angle at the row's position
    page addresses  int64[]                   address of each KV page, by page id

The control block, shared by the threads, is int64 words 64 bytes apart: arrivals, generation, stop, stopped,
waiters; one counter per op and thread follows.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kquants.decorators import inline, kernel
from kquants.layout import (
    ARRIVALS,
    COUNTERS,
    FEW_ROWS,
    FIRST_ARGUMENT,
    GENERATION,
    OP_WORDS,
    SHARE_END,
    STOP,
    STOPPED,
    THREAD,
    THREADS,
    WAITERS,
)
from kquants.simd import atomic_add, atomic_load, atomic_store, load_i64, store_i64

SPINS = 400
"""Pauses before a waiting thread yields, some 5 µs: with another busy program, threads may share a core."""
YIELDS = 60
"""Yields before it blocks, together some 30 µs, which is longer than the threads of an undisturbed op differ; then
the missing thread needs this core more than we do."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@inline
def argument(op: int, index: int) -> int:
    """The int64 argument of an op."""
    return load_i64(op + 8 * (FIRST_ARGUMENT + index))


@inline
def row_count(op: int, batch: int) -> int:
    """How many rows of the batch an op works on."""
    return load_i64(batch + 8 * load_i64(op + 24))


def _indirect(result: Any, given: list[Any], variadic: bool = False) -> Any:
    def call(builder: Any, address: Any, *values: Any) -> Any:
        function = ir.FunctionType(result, given, var_arg=variadic)
        return builder.call(builder.inttoptr(address, function.as_pointer()), values)

    return call


@intrinsic  # type: ignore[untyped-decorator]
def _call_kernel(context: Any, address: Any, op: Any, batch: Any, first: Any, last: Any, scratch: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        # Numba's own calling convention: a place for the result and one for an error come first. One place for
        # all calls: `alloca` here, inside the loop over chunks, would take more of the stack with each.
        spare = cgutils.alloca_once(builder, _I64)
        call = _indirect(_I32, [pointer, pointer] + [_I64] * 5)
        call(builder, values[0], builder.bitcast(spare, pointer), ir.Constant(pointer, None), *values[1:])
        return context.get_dummy_value()

    return types.none(*[types.int64] * 6), generate


@intrinsic  # type: ignore[untyped-decorator]
def _call_system(context: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call a C function that takes up to five integers: libc's variadic `syscall`, or a plain one."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _indirect(_I64, [_I64], variadic=True)(builder, *values)
        return context.get_dummy_value()

    return types.none(*[types.int64] * 6), generate


@intrinsic  # type: ignore[untyped-decorator]
def _pause(context: Any) -> Any:
    """Tell the CPU that this is a spin loop; where there is no such instruction, do nothing."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        triple = builder.module.triple
        assembly = "pause" if "86" in triple else "yield" if "aarch64" in triple or "arm64" in triple else ""
        builder.asm(ir.FunctionType(ir.VoidType(), []), assembly, "", [], side_effect=True)
        return context.get_dummy_value()

    return types.none(), generate


@inline
def _wait(control: int, generation: int, give_way: int, futex: int, futex_number: int) -> None:
    """Wait until the generation moves on: spin, then yield, then block (or go on yielding without futex)."""
    tries = 0
    while atomic_load(control + GENERATION) == generation:
        tries += 1
        if tries < SPINS:
            _pause()
        elif tries < SPINS + YIELDS or futex == 0:
            _call_system(give_way, 0, 0, 0, 0, 0)
        else:
            atomic_add(control + WAITERS, 1)
            # FUTEX_WAIT_PRIVATE = 128: sleeps only if the (low) word still holds `generation`.
            _call_system(futex, futex_number, control + GENERATION, 128, generation & 0xFFFFFFFF, 0)
            atomic_add(control + WAITERS, -1)


@inline
def _meet(control: int, threads: int, give_way: int, futex: int, futex_number: int) -> bool:
    """Wait until all threads are here; the last one decides for all whether to stop."""
    generation = atomic_load(control + GENERATION)
    if atomic_add(control + ARRIVALS, 1) == threads - 1:
        atomic_store(control + ARRIVALS, 0)
        atomic_store(control + STOPPED, atomic_load(control + STOP))
        atomic_add(control + GENERATION, 1)
        if futex != 0 and atomic_load(control + WAITERS) != 0:
            # FUTEX_WAKE_PRIVATE = 129
            _call_system(futex, futex_number, control + GENERATION, 129, threads, 0)
    else:
        _wait(control, generation, give_way, futex, futex_number)
    return atomic_load(control + STOPPED) != 0


@inline
def fixed_units(op: int) -> int:
    """The units of an op, but for those of its rows."""
    return load_i64(op + 8)


@inline
def share_start(units: int, me: int, threads: int) -> int:
    """The first unit of a thread's share of an op."""
    return units * me // threads


@inline
def _work_on(op: int, batch: int, control: int, counters: int, scratch: int, me: int, threads: int) -> None:
    """Do this thread's share of an op's units, then what is left of the others'."""
    rows = row_count(op, batch)
    units = fixed_units(op) + load_i64(op + 16) * rows if rows > 0 else 0
    most = max(1, 1024 // max(1, rows))  # small chunks of long batches, so that a stop is seen soon
    for other in range(threads):
        owner = (me + other) % threads
        start, stop = share_start(units, owner, threads), share_start(units, owner + 1, threads)
        counter = counters + 8 * owner
        first = start + atomic_load(counter)
        while first < stop and atomic_load(control + STOP) == 0:
            # Of few rows a part of what is left: the last chunks are small, so that no thread waits long for another.
            # Of many, all the same: the tiles of a chunk share the way to the rows.
            left = stop - first if rows <= FEW_ROWS else units // threads
            chunk = max(1, min(left // 4, most))
            first = start + atomic_add(counter, chunk)
            if first < stop:
                store_i64(scratch + SHARE_END, stop)
                store_i64(scratch + THREAD, me)
                store_i64(scratch + THREADS, threads)
                _call_kernel(load_i64(op), op, batch, first, min(first + chunk, stop), scratch)
            first = start + atomic_load(counter)


@kernel("run", arguments=10)
def run(
    program: int,
    ops: int,
    batch: int,
    control: int,
    scratch: int,
    me: int,
    threads: int,
    give_way: int,
    futex: int,
    number: int,
) -> None:
    """Run `ops` ops of a program over a batch as thread `me` of `threads`, until done or stopped.

    `scratch` is this thread's own memory; `give_way` the address of sched_yield, `futex` of syscall (or 0) and
    `number` that of the futex system call. The stop word is read before every chunk of work.
    """
    for i in range(ops):
        op = program + i * OP_WORDS * 8
        if load_i64(op + 32) != 0 and _meet(control, threads, give_way, futex, number):
            return
        _work_on(op, batch, control, control + COUNTERS + 8 * i * threads, scratch, me, threads)
    _meet(control, threads, give_way, futex, number)
