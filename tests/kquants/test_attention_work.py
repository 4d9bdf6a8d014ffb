"""How the work of attention is distributed over units, and units over threads.

Keys are zero, so that all weights are 1: the sum of the weights of a partial result is the number of its cells.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kquants.kv_layout import KV_BLOCK, PAGE, padded_head_dim
from kquants.layout import MAX_EXPERT_BATCH_ROWS, THREADS
from support.attention import AttentionOptions, AttentionRun
from support.kernels import GUARD, Array, call_address, guarded
from support.kv_pages import F32, Pages, Rows, Shape

SIZE = 8
"""Values of a head."""


@dataclass(frozen=True)
class WorkBatch:
    """Rows of sequences [(visible of the first row, rows)], with windows, for `heads` heads."""

    heads: int
    kv_heads: int
    sequences: list[tuple[int, int]]
    window: int = 0
    wanted: list[int] | None = None
    room: int = 256

    @property
    def rows(self) -> list[int]:
        """For each row of the op the number of cells that it sees."""
        visible = [visible + t for visible, rows in self.sequences for t in range(rows)]
        seen = [min(n, self.window or n) for n in visible]
        return seen if self.wanted is None else [seen[t] for t in self.wanted]


class UnitCosts:
    """The cells that each unit of the ops of a batch sees, added over heads, and how often each result is computed.

    All pages of all sequences are one page of zeros.
    """

    def __init__(self, batch: WorkBatch, threads: int) -> None:
        self.batch, shape = batch, Shape(batch.heads, batch.kv_heads, SIZE, "f16")
        pages = Pages(shape, 1, 0)
        tables = [[0] * -(-(visible + rows) // PAGE) for visible, rows in batch.sequences]
        tables = [table for table, (_, rows) in zip(tables, batch.sequences, strict=True) for _ in range(rows)]
        visible = [visible + t for visible, rows in batch.sequences for t in range(rows)]
        q = np.zeros((len(visible), batch.heads, SIZE), F32)
        outputs = None if batch.wanted is None else len(batch.wanted)
        options = AttentionOptions(window=batch.window)
        self.ops = AttentionRun(
            shape, Rows(pages, tables, visible, outputs=batch.wanted), q, options, outputs, batch.room
        )
        self.threads, self.written, self.stored = threads, Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        self.costs = [self._cost(unit) for unit in range(self.ops.units)]

    def _cost(self, unit: int) -> int:
        """Run a unit, and count what it wrote."""
        ops = self.ops
        ops.out[...], ops.parts[...] = guarded(ops.out.shape, F32), GUARD
        run_unit(ops, unit, self.threads)
        out = ops.out[:, : ops.width].reshape(ops.n, self.batch.heads, SIZE)
        results = [(int(t), int(h)) for t, h in np.argwhere(out[..., 0].view(np.uint32) != GUARD * 0x01010101)]
        self.written.update(results)
        states = ops.parts.view(F32)[..., padded_head_dim(SIZE) + 1]
        partials = [(int(i), int(h)) for i, h in np.argwhere(states.view(np.uint32) != GUARD * 0x01010101)]
        self.stored.update(partials)
        return sum(self.batch.rows[t] for t, _ in results) + sum(int(states[at]) for at in partials)

    def shares(self) -> Array:
        """The cells of each thread's share."""
        units = len(self.costs)
        ends = [units * me // self.threads for me in range(self.threads + 1)]
        return np.array([sum(self.costs[a:b]) for a, b in pairwise(ends)])

    def check_once(self) -> None:
        """Each head of each row is computed once: whole, or one partial result of each KV block that it sees."""
        rows, heads = self.batch.rows, self.batch.heads
        assert sum(self.costs) == heads * sum(rows)
        assert set(self.written.values()) | set(self.stored.values()) == {1}
        if self.stored:
            assert not self.written
        else:
            assert len(self.written) == heads * len(rows)


def run_unit(ops: AttentionRun, unit: int, threads: int) -> None:
    """One unit of attention, as the only chunk that a thread takes."""
    scratch = np.zeros(ops.shape.scratch, np.uint8)
    scratch[THREADS : THREADS + 8].view(np.int64)[:] = threads
    record = ops.attention
    addresses = record.ctypes.data, ops.rows.record.ctypes.data
    call_address(int(record[0]), *addresses, unit, unit + 1, scratch.ctypes.data)


EVEN = {
    "a row far into a long context": WorkBatch(1, 1, [(70_000, 1)], room=300),
    "the same, with more KV heads": WorkBatch(8, 4, [(20_000, 1)]),
    "rows that few partial results have room for": WorkBatch(32, 8, [(5_000, 17)]),
    "long and short sequences": WorkBatch(8, 8, [(n * n, 1) for n in range(1, 70, 3)], room=0),
    "the same, with room": WorkBatch(4, 2, [(n * n, 1) for n in range(1, 40, 3)]),
    "a prompt": WorkBatch(8, 2, [(1, 256)]),
    "a prompt of one KV head": WorkBatch(4, 1, [(1, 256)]),
    "a prompt at depth": WorkBatch(8, 8, [(3_000, 256)]),
    "a prompt in windows": WorkBatch(8, 2, [(400, 256)], window=100),
    "a window far into a context": WorkBatch(16, 8, [(9_000, 1)], window=1024),
    "logits of some rows": WorkBatch(8, 4, [(900, 200), (50, 5)], wanted=[*range(150, 200), 204]),
}


@pytest.mark.parametrize("threads", [2, 3, 6])
@pytest.mark.parametrize("name", EVEN)
def test_shares_are_even_by_cells(name: str, threads: int) -> None:
    found = UnitCosts(EVEN[name], threads)
    found.check_once()
    shares = found.shares()
    # An item is at most a quarter of a share; and tiles of rows that see few cells cost as if all saw as many as the
    # last, in whole pages.
    assert shares.max() <= 1.35 * shares.mean(), shares


@pytest.mark.parametrize("threads", [8, 16])
def test_many_threads_all_have_work(threads: int) -> None:
    for batch in (EVEN["a row far into a long context"], EVEN["a prompt of one KV head"], WorkBatch(32, 1, [(900, 3)])):
        shares = UnitCosts(batch, threads).shares()
        assert shares.min() > 0.35 * shares.mean(), shares


def test_a_row_beyond_65_536_cells_is_split_where_the_context_has_room() -> None:
    cells = 256 * KV_BLOCK + 1
    assert len(UnitCosts(WorkBatch(1, 1, [(cells, 1)], room=257), 2).stored) == 257
    assert not UnitCosts(WorkBatch(1, 1, [(cells, 1)], room=256), 2).stored


def test_smaller_tiles_have_room_for_their_partial_results() -> None:
    # Of 36 rows half see two KV blocks, and tiles of 18 rows have 54 partial results: those of 5 would have 57.
    batch = WorkBatch(32, 8, [(239, 36)], room=54)
    found = UnitCosts(batch, 16)
    found.check_once()
    assert len(found.stored) == 32 * 54


def test_the_largest_batch_may_have_a_sequence_for_each_row() -> None:
    UnitCosts(WorkBatch(1, 1, [(2, 1)] * MAX_EXPERT_BATCH_ROWS), 2).check_once()


@st.composite
def batches(draw: st.DrawFn) -> WorkBatch:
    kv_heads, group = draw(st.sampled_from([(1, 1), (1, 6), (2, 4), (8, 1), (1, 75)]))
    sizes = st.tuples(st.sampled_from([1, 60, 255, 257, 1000, 3000]), st.sampled_from([1, 1, 3, 17, 90]))
    sequences = draw(st.lists(sizes, min_size=1, max_size=3 if group < 75 else 1))
    sequences = sequences if sum(rows for _, rows in sequences) <= 256 else sequences[:2]
    rows = sum(rows for _, rows in sequences)
    wanted = draw(st.none() | st.lists(st.integers(0, rows - 1), min_size=1, unique=True))
    window = draw(st.sampled_from([0, 0, 1, 50, 64, 700]))
    return WorkBatch(kv_heads * group, kv_heads, sequences, window, wanted, draw(st.sampled_from([0, 30, 256, 1000])))


@settings(max_examples=25, deadline=None)
@given(batches(), st.sampled_from([1, 2, 5, 16]))
def test_each_head_of_each_row_is_computed_once(batch: WorkBatch, threads: int) -> None:
    UnitCosts(batch, threads).check_once()
