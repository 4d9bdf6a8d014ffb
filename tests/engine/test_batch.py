"""A batch: its record, as kernels read it, and what of it goes to another process."""

import ctypes
import pickle

import numpy as np

from edgellm.arch.description import Rope, RopeType
from edgellm.engine.batch import Batch
from edgellm.engine.kv_pages import PagedSequence, PagePool
from edgellm.engine.protocol import Segment
from edgellm.engine.rope_table import RopeTable
from kquants.kv_layout import PAGE

ROPE = Rope(frequencies=np.array([1.0, 0.1]), magnitude=1.0, rope_type=RopeType.NEOX)


def sequence(pool: PagePool, held: int, new: int) -> PagedSequence:
    """One that holds some tokens, with room for more."""
    made = PagedSequence(pool)
    made.reserve(held)
    made.append([0] * held)
    made.reserve(new)
    return made


def int32(address: int, count: int) -> list[int]:
    return list((ctypes.c_int32 * count).from_address(address))


def int64(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def test_the_record_of_two_segments() -> None:
    pool, rope_table = PagePool([]), RopeTable(ROPE, 1000)
    long, short = sequence(pool, PAGE, 2), sequence(pool, 3, 1)
    assert (long.pages, short.pages) == ([0, 1], [2])
    batch = Batch([Segment(long, [7, 8], [1]), Segment(short, [9], [0])], rope_table)
    record = batch.record(pages=1234)
    rows, outputs, tokens, tables, visible, wanted, table, pages = int64(record.address, 8)
    assert (rows, outputs, pages) == (3, 2, 1234)
    assert int32(tokens, 3) == [7, 8, 9]
    assert int32(visible, 3) == [PAGE + 1, PAGE + 2, 4]
    assert int32(wanted, 2) == [1, 2]
    first, second, third = int64(tables, 3)
    assert first == second, "rows of one sequence are known by its table"
    assert (int32(first, 2), int32(third, 1)) == ([0, 1], [2])
    at_four = np.array((ctypes.c_float * 4).from_address(table + 16 * 3))
    assert np.allclose(at_four, [np.cos(3), np.sin(3), np.cos(0.3), np.sin(0.3)], atol=1e-6)


def test_another_process_gets_the_angles_of_the_rows_alone() -> None:
    sizes = []
    for held in (10, 900):
        batch = Batch([Segment(sequence(PagePool([]), held, 2), [1, 2])], RopeTable(ROPE, 1000))
        batch.tables = []  # these grow with the context
        sent = pickle.dumps(batch)
        assert np.array_equal(pickle.loads(sent).cos_sin, ROPE.cos_sin(np.array([held, held + 1])))
        sizes.append(len(sent))
    assert sizes[1] - sizes[0] < 16
