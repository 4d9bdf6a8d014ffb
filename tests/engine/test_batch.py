"""A batch: its record, as kernels read it, and what of it goes to another process."""

import ctypes
import pickle
from types import SimpleNamespace
from typing import cast

import numpy as np

from edgellm.arch.description import Description
from edgellm.arch.positions import Rope, RopeType
from edgellm.engine.batch import Batch
from edgellm.engine.checkpoints import CheckpointBudget
from edgellm.engine.kv_pages import FREED, PagePool
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.position_tables import PositionTables
from edgellm.engine.protocol import Segment
from kquants.kv_layout import PAGE
from kquants.records import BatchRecord

ROPE = Rope(frequencies=np.array([1.0, 0.1]), magnitude=1.0, rope_type=RopeType.NEOX)


def tables(ctx: int = 1000) -> PositionTables:
    """The position tables of a model with one RoPE."""
    return PositionTables(cast(Description, SimpleNamespace(position_tables=(ROPE,))), ctx)


def sequence(pools: list[PagePool], held: int, new: int) -> PagedSequence:
    """One that holds some tokens, with room for more."""
    made = PagedSequence(pools, CheckpointBudget(None))
    given = Segment(made, [0] * held)
    made.reserve(given)
    made.append(given)
    made.reserve(Segment(made, [0] * new))
    return made


def int32(address: int, count: int) -> list[int]:
    return list((ctypes.c_int32 * count).from_address(address))


def int64(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def record_of(batch: Batch, pages: int = 1234) -> tuple[BatchRecord, object]:
    """The words of the record, and what must live as long as they are read."""
    memory = batch.record(pages)
    return BatchRecord(*int64(memory.address, len(BatchRecord._fields))), memory


def test_the_record_of_two_segments() -> None:
    pools = [PagePool([])]
    long, short = sequence(pools, PAGE, 2), sequence(pools, 3, 1)
    assert (long.tables[0].ids, short.tables[0].ids) == ([0, 1], [2])
    batch = Batch([Segment(long, [7, 8], [1]), Segment(short, [9], [0])], tables())
    record, _kept = record_of(batch)
    assert (record.rows, record.outputs, record.pages) == (3, 2, 1234)
    assert (record.segments, int32(record.segment_rows, 3)) == (2, [0, 2, 3])
    assert int32(record.tokens, 3) == [7, 8, 9]
    assert int32(record.cells, 3) == int32(record.positions, 3) == [PAGE, PAGE + 1, 3]
    assert (int32(record.first, 3), int32(record.visible, 3)) == ([0, 0, 0], [PAGE + 1, PAGE + 2, 4])
    assert int32(record.output_rows, 2) == [1, 2]
    first, second, third = int64(record.page_tables, 3)
    assert first == second, "rows of one sequence are known by its table"
    assert (int32(first, 2), int32(third, 1)) == ([0, 1], [2])
    assert record.embeddings == 0
    (table,) = int64(record.position_tables, 1)
    at_four = np.array((ctypes.c_float * 4).from_address(table + 16 * 3))
    assert np.allclose(at_four, [np.cos(3), np.sin(3), np.cos(0.3), np.sin(0.3)], atol=1e-6)


def test_each_kv_group_has_page_tables_of_its_own() -> None:
    pools = [PagePool([], 0, None), PagePool([], 1, 4)]
    pools[1].acquire()  # so that the ids differ
    one, other = sequence(pools, 8 * PAGE, 1), sequence(pools, 0, 1)
    record, _kept = record_of(Batch([Segment(one, [1], [0]), Segment(other, [2], [0])], tables()))
    every, windowed = int64(record.page_tables, 2), int64(record.page_tables + 16, 2)
    assert int32(every[0], 9) == [*range(9)]
    assert int32(windowed[0], 9)[:3] == [FREED] * 3
    assert int32(windowed[0], 9)[3:] == one.tables[1].ids[3:]
    assert (int32(every[1], 1), int32(windowed[1], 1)) == (other.tables[0].ids, other.tables[1].ids)


def test_rows_with_embeddings_of_their_own_point_to_them() -> None:
    pools, image = [PagePool([])], np.arange(4, dtype=np.float32)
    segments = [Segment(sequence(pools, 0, 3), [5, 6, 7], [2], {1: image}), Segment(sequence(pools, 0, 1), [8], [0])]
    record, _kept = record_of(Batch(segments, tables()))
    addresses = int64(record.embeddings, 4)
    assert [bool(address) for address in addresses] == [False, True, False, False]
    assert np.array_equal(np.array((ctypes.c_float * 4).from_address(addresses[1])), image)
    assert int32(int64(record.page_tables, 4)[3], 1) == [1]


def test_another_process_gets_the_angles_of_the_rows_alone() -> None:
    sizes = []
    for held in (10, 900):
        batch = Batch([Segment(sequence([PagePool([])], held, 2), [1, 2])], tables())
        batch.tables = []  # these grow with the context
        sent = pickle.dumps(batch)
        (angles,) = pickle.loads(sent).position_values
        assert np.array_equal(angles, ROPE.values(np.array([held, held + 1])))
        sizes.append(len(sent))
    assert sizes[1] - sizes[0] < 16
