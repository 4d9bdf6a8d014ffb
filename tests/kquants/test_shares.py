"""How the threads of a pool share an op's units: the chunks, and the words that a kernel finds in its scratch."""

import ctypes
import threading

import numpy as np
import pytest

from edgellm.engine.threadpool import ThreadPool
from kquants.layout import PREPARED, SHARE_BYTES, SHARE_END, THREAD, THREADS
from kquants.records import OpHeader
from kquants.simd import store_i64
from kquants.threadpool import interpreter
from kquants.threadpool.control_block import THREAD_COUNT, THREAD_STATES, control_bytes
from support.kernels import addresses, batch_record, call, compile_kernel
from support.matmul import group_list


@compile_kernel
def chunk(left: int, share: int, rows: int, result: int) -> None:
    store_i64(result, interpreter._chunk_size(left, share, rows))


@compile_kernel
def grouped_chunk(op: int, rows: int, first: int, left: int, share: int, result: int) -> None:
    store_i64(result, interpreter._next_chunk(op, rows, first, left, share))


def chunk_of(left: int, share: int, rows: int) -> int:
    """Units that a thread takes next, with `left` units of its share left."""
    result = ctypes.c_int64()
    chunk(left, share, rows, ctypes.addressof(result))
    return result.value


def test_chunks_of_few_rows_become_small_but_not_very_small() -> None:
    left, chunks = 64, []
    while left:
        chunks.append(chunk_of(left, 64, 1))
        left -= chunks[-1]
    assert chunks == [32, 16, 8, 4, 4]
    assert [chunk_of(left, 64, 16) for left in (1, 3, 5, 4000)] == [1, 3, 4, 64]


@pytest.mark.parametrize(
    ("share", "rows", "chunk"), [(2000, 200, 4), (2000, 100, 8), (20, 100, 4), (11, 17, 2), (3, 256, 1)]
)
def test_chunks_of_many_rows_are_whole_strips(share: int, rows: int, chunk: int) -> None:
    assert [chunk_of(left, share, rows) for left in (1, share)] == [chunk, chunk]


def test_chunks_of_groups_are_sized_by_the_rows_of_theirs_and_end_with_it() -> None:
    listed = group_list([(3, 1), (0, 16), (7, 100), (2, 600)])
    op = np.array([*OpHeader(0, 50, 0, 0, 0, units_factor=listed.ctypes.data)], np.int64)
    result = ctypes.c_int64()

    def chunk_at(first: int, left: int) -> int:
        grouped_chunk(op.ctypes.data, 717, first, left, 100, ctypes.addressof(result))
        return result.value

    assert [chunk_at(first, 100 - first) for first in (0, 45, 50, 60, 90)] == [50, 5, 25, 20, 5]
    assert [chunk_at(first, 200 - first) for first in (100, 147, 150, 198)] == [8, 3, 4, 2]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("ops", [1, 8, 9, 150])
def test_no_two_threads_count_on_the_same_line(ops: int, threads: int) -> None:
    room = np.full((control_bytes(threads, ops) + 4096) // 8, 7, np.int64)  # followed by memory that must not change
    first = -room.ctypes.data % 64 // 8
    block = room[first:]
    block[THREAD_COUNT // 8] = threads
    call("submit_job", block.ctypes.data, 0, ops, 0, threads)
    begin, end = THREAD_STATES // 8 + 8 * threads, control_bytes(threads, ops) // 8
    counters = begin + np.flatnonzero(block[begin:] == 0)
    assert len(counters) == ops * threads and counters[-1] < end
    owners = np.repeat(np.arange(threads), ops)
    assert len(set(zip(counters // 8, owners, strict=True))) == len(set(counters // 8))


def test_a_kernel_finds_the_share_that_its_chunk_is_of() -> None:
    # The thread that takes unit 0 waits until the others, their own shares done, have taken the rest of its share.
    seen: list[tuple[int, int, int, int, int, int]] = []
    prepared: list[tuple[int, int]] = []
    done, others = [0], threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 5)
    def kernel(spare: int, error: int, op: int, batch: int, first: int, last: int, scratch: int) -> int:
        words = ctypes.cast(scratch, ctypes.POINTER(ctypes.c_int64))
        seen.append((scratch, first, last, *(words[at // 8] for at in (SHARE_END, THREAD, THREADS))))
        words[0] = words[1] = words[2] = -1  # as kernels do that use their scratch
        prepared.append((scratch, words[PREPARED // 8]))
        words[PREPARED // 8] = 1
        done[0] += last - first
        if done[0] == 100:
            others.set()
        if first == 0:
            others.wait(60)
        return 0

    op = np.array([*OpHeader(ctypes.cast(kernel, ctypes.c_void_p).value, 100, 0, 0, 0)] + [0] * 9, np.int64)
    pool, batch = ThreadPool(3, addresses(), 1, SHARE_BYTES), batch_record(1)
    assert pool.run(op.ctypes.data, 1, batch.ctypes.data)
    assert sorted(unit for _, first, last, *_ in seen for unit in range(first, last)) == list(range(100))
    starts = {33: 0, 66: 33, 100: 66}
    assert all(starts[end] <= first < last <= end and threads == 3 for _, first, last, end, _, threads in seen)
    numbers = {(scratch, me) for scratch, _, _, _, me, _ in seen}
    assert len(numbers) == len({scratch for scratch, _ in numbers}) == len({me for _, me in numbers})
    assert {me for _, me in numbers} <= {0, 1, 2}
    assert any(end == 33 and me != 0 for _, _, _, end, me, _ in seen), "no thread took from another's share"
    chunks = dict[int, list[int]]()
    for scratch, found in prepared:
        chunks.setdefault(scratch, []).append(found)
    assert all(words == [0] + [1] * (len(words) - 1) for words in chunks.values())
    prepared.clear()
    assert pool.run(op.ctypes.data, 1, batch.ctypes.data)
    assert all(dict(reversed(prepared))[scratch] == 0 for scratch in dict(prepared)), "another op is at its beginning"
    pool.close()
