"""A program is a list of ops; every thread runs the same list over its share of the units of each op.

An op is a record of 16 int64:

    word   0        1      2              3     4     5 …
         [ kernel | units | units per row | rows | meet | arguments ]

It has `units + units per row · n` units of work, where n is word `rows` of the batch: 0 counts all rows, 1
those whose logits are wanted; where there are none it has no work. Buffers have the rows of an op one after the other
(but for the queries of attention, which are those of all rows). Each thread has a share of consecutive units, which it
takes in chunks from a counter: what it asks the memory for ahead is then what it needs next. Done with its own, it
takes from the others', so that fast cores do more. `meet` is 1 where an op needs what the ops before it wrote, or
writes what they read: all threads meet there first.

A kernel finds four int64 at the beginning of its thread's scratch: the unit where the share ends that its chunk is of,
the number of the thread, how many there are, and 0 at the first chunk of an op that the thread works on: what a kernel
writes there instead stays for its next chunk, and so does what it puts into the rest of scratch. A thread that left
before the end of an op finds 0 again.

A batch is a record of int64 about its n rows (one row is one token of one sequence):

    word   0     1              2       3         4            5                6                7
         [ n | outputs count | tokens | tables | visible | output rows | rotations | page addresses ]

    tokens          int32[n]                  token ids
    tables          int64[n]                  address of the int32 page table of the row's sequence
    visible         int32[n]                  how many cells of its sequence the row sees, its own the last
    output rows     int32[outputs count]      rows whose logits are wanted
    rotations       float32[:, rope_dim/2, 2] cosine and sine of each pair's angle at every position
    page addresses  int64[]                   address of each KV page, by page id

How threads come together over a program is told in `kquants.jobs`.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kquants.decorators import inline
from kquants.layout import FEW_ROWS, FIRST_ARGUMENT, PREPARED, SHARE_END, STOP, STRIP, THREAD, THREADS
from kquants.simd import atomic_add, atomic_load, load_i32, load_i64, store_i64
from kquants.waiting import is_past

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@inline
def argument(op: int, index: int) -> int:
    """The int64 argument of an op."""
    return load_i64(op + 8 * (FIRST_ARGUMENT + index))


@inline
def row_count(op: int, batch: int) -> int:
    """How many rows of the batch an op works on."""
    return load_i64(batch + 8 * load_i64(op + 24))


@inline
def batch_row(op: int, batch: int, t: int) -> int:
    """Which row of the batch is row t of those that an op works on."""
    return int(load_i32(load_i64(batch + 40) + 4 * t)) if load_i64(op + 24) else t


@intrinsic  # type: ignore[untyped-decorator]
def _call_kernel(context: Any, address: Any, op: Any, batch: Any, first: Any, last: Any, scratch: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        # Numba's own calling convention: a place for the result and one for an error come first. One place for
        # all calls: `alloca` here, inside the loop over chunks, would take more of the stack with each.
        spare = cgutils.alloca_once(builder, _I64)
        kind = ir.FunctionType(_I32, [pointer, pointer] + [_I64] * 5)
        given = [builder.bitcast(spare, pointer), ir.Constant(pointer, None), *values[1:]]
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.none(*[types.int64] * 6), generate


@inline
def fixed_units(op: int) -> int:
    """The units of an op, but for those of its rows."""
    return load_i64(op + 8)


@inline
def share_start(units: int, me: int, threads: int) -> int:
    """The first unit of a thread's share of an op."""
    return units * me // threads


@inline
def _chunk(left: int, share: int, rows: int) -> int:
    """How many units a thread takes at once of those that are `left` of a share; `share` is what one has on average."""
    most = max(1, 1024 // rows)  # small chunks of long batches, so that a stop is seen soon
    if rows <= FEW_ROWS:
        # The last chunks are small, so that no thread waits long for another; but not very small, as to take one is an
        # atomic step, before which a core waits for all that it has asked the memory for. (With a quarter of what is
        # left, decode was 2 to 6 % slower.)
        return min(max(min(left, 4), left // 2), most)
    # Chunks of many rows are all the same, whole strips if they have one: its tiles share the way to the rows.
    chunk = max(1, min(share // 4, most))
    return chunk if chunk < STRIP else chunk // STRIP * STRIP


@inline
def work_on(
    op: int, batch: int, control: int, counters: int, apart: int, scratch: int, me: int, threads: int, until: int
) -> bool:
    """Do this thread's share of an op's units, then what is left of the others'; False if it left before, at `until`.

    Called again, it goes on. The first thread's counter lies at `counters`, each next one's `apart` bytes further on.
    """
    rows = row_count(op, batch)
    units = fixed_units(op) + load_i64(op + 16) * rows if rows > 0 else 0
    store_i64(scratch + PREPARED, 0)
    for other in range(threads):
        owner = (me + other) % threads
        start, stop = share_start(units, owner, threads), share_start(units, owner + 1, threads)
        counter = counters + apart * owner
        first = start + atomic_load(counter)
        while first < stop and atomic_load(control + STOP) == 0:
            chunk = _chunk(stop - first, units // threads, rows)
            first = start + atomic_add(counter, chunk)
            if first < stop:
                store_i64(scratch + SHARE_END, stop)
                store_i64(scratch + THREAD, me)
                store_i64(scratch + THREADS, threads)
                _call_kernel(load_i64(op), op, batch, first, min(first + chunk, stop), scratch)
                if is_past(control, until):
                    return False
            first = start + atomic_load(counter)
    return True
