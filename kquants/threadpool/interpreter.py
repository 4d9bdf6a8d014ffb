"""Ops: how each thread runs its share of an op's units of work.

A program is a list of op records (`kquants.records`); every thread runs the same list over its share of the units of
each op. An op has `units · factor + units_per_row · n` units, where n is its number of rows, and the factor is 1 or the
number of its groups of rows, those of the list at `units_factor`; with no rows it has no work. In buffers, the rows of
an op follow each other (but the queries of attention may be those of all rows of the batch).

A thread's share is a range of consecutive units, which the thread takes in chunks from a counter: what it prefetches is
then what it reads next. When its own share is done, a thread takes chunks of the others' shares, so that fast cores do
more.

Before each call, the first words of the thread's scratch tell the kernel (offsets are in `kquants.layout`):

    SHARE_END   the unit at which the share ends that this chunk belongs to
    THREAD      the thread's number
    THREADS     how many threads run the job
    PREPARED    0 at the thread's first chunk of an op; afterwards what the kernel itself has stored there

What a kernel stores in PREPARED and in the rest of scratch is still there at the thread's next chunk of the same op; a
thread that left the op at a deadline finds PREPARED 0 again.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kquants.compiler.decorators import inline
from kquants.layout import FEW_ROWS, PREPARED, SHARE_END, STRIP, THREAD, THREADS
from kquants.records import FIRST_ARGUMENT, BatchRecord, GroupList, MatmulGroup, OpHeader, are_floats
from kquants.simd import at, atomic_add, atomic_load, define, load, load_i32, store_i64
from kquants.threadpool.clock import is_past
from kquants.threadpool.control_block import STOP

_I32, _I64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()


def record_at(kind: Any, words: int = 0) -> Any:
    """`read(address) -> kind`: the record of type `kind` (see `kquants.records`) that begins `words` words further on.

    LLVM drops the loads of fields that a kernel does not use.
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


header_of, batch_of = record_at(OpHeader), record_at(BatchRecord)
_group_list, _group = record_at(GroupList), record_at(MatmulGroup)
_LIST_BYTES, _GROUP_BYTES = 8 * len(GroupList._fields), 8 * len(MatmulGroup._fields)
assert GroupList._fields == ("count",) and MatmulGroup._fields == ("matrix", "first_row"), "they are written otherwise"


@inline
def group_of(groups: int, i: int) -> tuple[int, int, int]:
    """Group i of a GroupList: its matrix, its first row, and the end of its rows."""
    place = groups + _LIST_BYTES + i * _GROUP_BYTES
    return _group(place).matrix, _group(place).first_row, _group(place + _GROUP_BYTES).first_row


@inline
def write_group(groups: int, i: int, matrix: int, first_row: int) -> None:
    """Write group i of a GroupList."""
    place = groups + _LIST_BYTES + i * _GROUP_BYTES
    store_i64(place, matrix)
    store_i64(place + 8, first_row)


@inline
def end_groups(groups: int, count: int, rows: int) -> None:
    """Write what a GroupList has beside its groups: their number, and behind the last one the end of the rows."""
    write_group(groups, count, 0, rows)
    store_i64(groups, count)


@inline
def row_count(op: int, batch: int) -> int:
    """The number of rows that an op works on: those of the batch, or wanted ones, times its slots."""
    rows = batch_of(batch).outputs if header_of(op).outputs else batch_of(batch).rows
    return int(rows * header_of(op).slots)


@inline
def unit_count(op: int, rows: int) -> int:
    """The units of work of an op with some rows."""
    header = header_of(op)
    if rows == 0:
        return 0
    factor = _group_list(header.units_factor).count if header.units_factor != 0 else 1
    return int(header.units * factor + header.units_per_row * rows)


@inline
def batch_row(op: int, batch: int, t: int) -> int:
    """The row of the batch that is row t of an op."""
    return int(load_i32(batch_of(batch).output_rows + 4 * t)) if header_of(op).outputs else t


@intrinsic  # type: ignore[untyped-decorator]
def _call_kernel(context: Any, address: Any, op: Any, batch: Any, first: Any, last: Any, scratch: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        # Numba's calling convention: the first two arguments point to a result and an error. All calls share one
        # place for the result: an `alloca` here, inside the loop over chunks, would grow the stack with each call.
        result = cgutils.alloca_once(builder, _I64)
        kind = ir.FunctionType(_I32, [pointer, pointer] + [_I64] * 5)
        given = [builder.bitcast(result, pointer), ir.Constant(pointer, None), *values[1:]]
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.none(*[types.int64] * 6), generate


@inline
def share_start(units: int, me: int, threads: int) -> int:
    """The first unit of a thread's share of an op."""
    return units * me // threads


@inline
def _chunk_size(left: int, share: int, rows: int) -> int:
    """Units to take at once from a share of which `left` units are left; `share` is the average size of a share."""
    most = max(STRIP, 1024 // rows)  # small chunks of long batches, so that a stop is seen soon
    if rows <= FEW_ROWS:
        # The last chunks are small, so that no thread waits long for another; but not very small, as each is taken by
        # an atomic operation, for which a core first waits for all its outstanding prefetches. (Half of what is left;
        # a quarter: decode 2 to 6 % slower.)
        return min(max(min(left, 4), left // 2), most)
    # Chunks of many rows are of one size, in whole strips where it reaches one: the tiles of a strip share their visit
    # of the rows.
    chunk = max(1, min(share // 4, most))
    return chunk if chunk < STRIP else chunk // STRIP * STRIP


@inline
def _next_chunk(op: int, rows: int, first: int, left: int, share: int) -> int:
    """Units to take at once from unit `first` on, as `_chunk_size` has it for their group of rows, with which they end.

    Groups may have few rows or many: a chunk that went on into the next ones might take much longer than others.
    """
    header = header_of(op)
    if header.units_factor == 0:
        return _chunk_size(left, share, rows)
    _, start, end = group_of(header.units_factor, first // header.units)
    return min(_chunk_size(left, share, max(1, end - start)), header.units - first % header.units)


@inline
def run_op(
    op: int, batch: int, control: int, counters: int, stride: int, scratch: int, me: int, threads: int, deadline: int
) -> bool:
    """Run this thread's share of an op's units, then what is left of the others' shares.

    Returns False if the thread left at the deadline, True if no units are left. Called again, it goes on. `counters` is
    the address of the first thread's counter, `stride` the bytes from each thread's to the next.
    """
    rows = row_count(op, batch)
    units = unit_count(op, rows)
    store_i64(scratch + PREPARED, 0)
    for other in range(threads):
        owner = (me + other) % threads
        start, stop = share_start(units, owner, threads), share_start(units, owner + 1, threads)
        counter = counters + stride * owner
        first = start + atomic_load(counter)
        while first < stop and atomic_load(control + STOP) == 0:
            chunk = _next_chunk(op, rows, first, stop - first, units // threads)
            first = start + atomic_add(counter, chunk)
            if first < stop:
                store_i64(scratch + SHARE_END, stop)
                store_i64(scratch + THREAD, me)
                store_i64(scratch + THREADS, threads)
                _call_kernel(header_of(op).kernel, op, batch, first, min(first + chunk, stop), scratch)
                if is_past(control, deadline):
                    return False
            first = start + atomic_load(counter)
    return True
