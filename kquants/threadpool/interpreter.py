"""A program is a list of ops; every thread runs the same list over its share of the units of each op.

Ops and batches are records of `kquants.records`. An op has `units + units_per_row · n` units of work, with n its rows;
where there are none it has no work. Buffers have the rows of an op one after the other (but for the queries of
attention, which are those of all rows). Each thread has a share of consecutive units, which it takes in chunks from a
counter: what it asks the memory for ahead is then what it needs next. Done with its own, it takes from the others', so
that fast cores do more.

A kernel finds four int64 at the beginning of its thread's scratch: the unit where the share ends that its chunk is of,
the number of the thread, how many there are, and 0 at the first chunk of an op that the thread works on: what a kernel
writes there instead stays for its next chunk, and so does what it puts into the rest of scratch. A thread that left
before the end of an op finds 0 again.

How threads come together over a program is told in `kquants.threadpool.jobs`.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kquants.compiler.decorators import inline
from kquants.layout import FEW_ROWS, PREPARED, SHARE_END, STOP, STRIP, THREAD, THREADS
from kquants.records import FIRST_ARGUMENT, BatchRecord, OpHead, are_floats
from kquants.simd import at, atomic_add, atomic_load, define, load, load_i32, store_i64
from kquants.threadpool.barrier import is_past

_I32, _I64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()


def record_at(kind: Any, words: int = 0) -> Any:
    """`read(address) -> kind`: the record of `kquants.records` that begins so many words on.

    The compiler leaves out what of it nobody uses.
    """
    floats = are_floats(kind)
    result = types.NamedTuple([types.float32 if is_float else types.int64 for is_float in floats], kind)

    @define(result, types.int64)
    def read(b: ir.IRBuilder, address: Any) -> Any:
        loaded = [_FLOAT if is_float else _I64 for is_float in floats]
        record: Any = ir.Constant(ir.LiteralStructType(loaded), ir.Undefined)
        for i, element in enumerate(loaded):
            record = b.insert_value(record, load(b, at(b, address, 8 * (words + i)), element), i)
        return record

    return read


def arguments_of(kind: Any) -> Any:
    """`read(op) -> kind`: the arguments of an op."""
    return record_at(kind, FIRST_ARGUMENT)


head_of, batch_of = record_at(OpHead), record_at(BatchRecord)


@inline
def row_count(op: int, batch: int) -> int:
    """How many rows of the batch an op works on."""
    return int(batch_of(batch).outputs if head_of(op).outputs else batch_of(batch).rows)


@inline
def batch_row(op: int, batch: int, t: int) -> int:
    """Which row of the batch is row t of those that an op works on."""
    return int(load_i32(batch_of(batch).output_rows + 4 * t)) if head_of(op).outputs else t


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
    units = head_of(op).units + head_of(op).units_per_row * rows if rows > 0 else 0
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
                _call_kernel(head_of(op).kernel, op, batch, first, min(first + chunk, stop), scratch)
                if is_past(control, until):
                    return False
            first = start + atomic_load(counter)
    return True
