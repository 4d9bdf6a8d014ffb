"""Windows, soft caps, sinks and sizes of heads of attention, against float64."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kquants.kv_layout import PAGE
from support.attention import TOLERANCE, AttentionOptions, AttentionRun, seen_by, softmax_attention, some_cells
from support.kernels import Array, same_bits
from support.kv_pages import F32, KINDS, Pages, Rows, Shape

DIMS = (8, 16, 33, 40, 64, 80, 100, 128, 192, 256, 512)


@dataclass(frozen=True)
class SequenceRows:
    """Rows of a sequence: each sees one cell more than the row before it, from cell `first` on."""

    visible: int
    """End of the cells that the first row sees."""
    rows: int
    first: int = 0


class AttentionCase:
    """A batch of sequences with keys and values for all that rows may see.

    Cells that no row sees are NaN, as pages are at first, and pages of which no row sees a cell have no memory.
    """

    def __init__(self, shape: Shape, sequences: list[SequenceRows], options: AttentionOptions, seed: int = 0) -> None:
        self.shape, self.options, rng = shape, options, np.random.default_rng(seed)
        self.visible, self.first = list[int](), list[int]()
        self.tables, self.cells = list[list[int]](), list[tuple[Array, Array]]()
        counts = [-(-(s.visible + s.rows - 1) // PAGE) for s in sequences]
        self.pages, free = Pages(shape, sum(counts)), list(rng.permutation(sum(counts)))
        for s, count in zip(sequences, counts, strict=True):
            k, v = some_cells(rng, shape, s.visible + s.rows - 1)
            begins = options.first_seen(s.first, s.visible)
            table = [int(free.pop()) if (p + 1) * PAGE > begins else -1 for p in range(count)]
            self.pages.put(table, k, v, begins)
            self.tables += [table] * s.rows
            self.visible += range(s.visible, s.visible + s.rows)
            self.first += [s.first] * s.rows
            self.cells += [(k, v)] * s.rows
        self.q = rng.standard_normal((len(self.visible), shape.heads, shape.key_dim)).astype(F32)

    def run(self, threads: int = 2, chunk: int = 1, room: int | None = None) -> Array:
        rows = Rows(self.pages, self.tables, self.visible, self.first)
        return AttentionRun(self.shape, rows, self.q, self.options, room=room).run(threads, chunk)

    def alone(self, t: int) -> Array:
        """The result of row t in a batch of its own."""
        rows = Rows(self.pages, self.tables[t : t + 1], self.visible[t : t + 1], self.first[t : t + 1])
        result: Array = AttentionRun(self.shape, rows, self.q[t : t + 1], self.options).run(threads=1)[0]
        return result

    def exact(self, t: int) -> NDArray[np.float64]:
        (k, v), begin = self.cells[t], self.options.first_seen(self.first[t], self.visible[t])
        k, v = k[begin : self.visible[t]], v[begin : self.visible[t]]
        q, scale = seen_by(self.shape, self.q, self.options.scale)[t], float(F32(self.options.scale))
        return softmax_attention(self.shape, q, k, v, scale, self.options)

    def check(self, result: Array) -> None:
        for t in range(len(self.visible)):
            assert np.abs(result[t] - self.exact(t)).max() < TOLERANCE, f"row {t}"
            assert same_bits(self.alone(t), result[t]), f"row {t} depends on the other rows"


def sinks_of(shape: Shape) -> Array:
    return np.linspace(-3, 6, shape.heads).astype(F32)


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize("window", [1, 2, 15, 16, 17, 63, 64, 65, 200, 256, 257, 600])
def test_a_row_sees_the_last_cells_of_its_window(window: int, kv: str) -> None:
    # Rows go on behind the window's size, into new pages and KV blocks; a long and a short sequence.
    shape = Shape(4, 2, 16, kv)
    case = AttentionCase(
        shape,
        [SequenceRows(250, 11), SequenceRows(max(1, window - 3), 9), SequenceRows(1, 2)],
        AttentionOptions(window=window),
    )
    case.check(case.run())


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize("chunk", [1, 2, 16, 17, 64, 100, 250, 256])
def test_a_row_sees_the_cells_of_its_chunk(chunk: int, kv: str) -> None:
    # The rows of a sequence are of two chunks and more, or of one; one begins behind the first cell of its chunk.
    shape = Shape(4, 2, 16, kv)
    case = AttentionCase(
        shape,
        [
            SequenceRows(248, 11),
            SequenceRows(2 * chunk, 2),
            SequenceRows(1, 2),
            SequenceRows(2 * chunk + 9, 3, chunk + 5),
        ],
        AttentionOptions(window=chunk, chunked=True),
    )
    case.check(case.run())


@pytest.mark.parametrize("first", [1, 15, 16, 64, 130, 255, 256, 299])
def test_a_row_sees_no_cell_before_its_first(first: int) -> None:
    shape = Shape(4, 2, 16, "f32")
    for window in (0, 20):
        case = AttentionCase(
            shape, [SequenceRows(300, 5, first), SequenceRows(300, 1)], AttentionOptions(window=window)
        )
        case.check(case.run())


def test_pages_between_what_two_rows_see_are_not_touched() -> None:
    shape, rng = Shape(2, 1, 16, "f32"), np.random.default_rng(1)
    k, v = some_cells(rng, shape, 310)
    pages, table, q = Pages(shape, 2), [1, -1, -1, -1, 0], rng.standard_normal((2, 2, 16)).astype(F32)
    pages.put(table, k[:10], v[:10])
    pages.put(table, k, v, 270)
    result = AttentionRun(shape, Rows(pages, [table] * 2, [10, 310], [0, 270]), q, AttentionOptions()).run()
    for row, seen in enumerate((slice(10), slice(270, 310))):
        assert np.abs(result[row] - softmax_attention(shape, q[row], k[seen], v[seen], 0.25)).max() < TOLERANCE


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize("cap", [0.5, 5.0, 50.0])
def test_soft_caps(cap: float, kv: str) -> None:
    shape = Shape(4, 2, 40, kv)
    for scale in (1e-3, 0.2, 2.0):
        case = AttentionCase(shape, [SequenceRows(70, 3), SequenceRows(300, 12)], AttentionOptions(scale, soft_cap=cap))
        for t, row in enumerate(result := case.run()):
            # A score of n has an error of up to n / 2**23, and the weights one of as much.
            exact, size = case.exact(t), 1 + min(cap, 30 * scale)
            assert np.abs(row - exact).max() < size * TOLERANCE
            assert same_bits(case.alone(t), result[t])


def test_a_cap_far_above_the_scores_changes_nothing_beyond_rounding() -> None:
    shape = Shape(2, 1, 16, "f32")
    case = AttentionCase(shape, [SequenceRows(100, 1)], AttentionOptions())
    capped = AttentionRun(
        shape, Rows(case.pages, case.tables, case.visible), case.q, AttentionOptions(soft_cap=1e6)
    ).run()
    assert np.abs(capped - case.run()).max() < TOLERANCE


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize("window", [0, 5])
def test_a_sink_takes_its_weight_from_the_values(window: int, kv: str) -> None:
    shape = Shape(6, 2, 16, kv)
    options = AttentionOptions(window=window, sinks=sinks_of(shape))
    case = AttentionCase(shape, [SequenceRows(1, 3), SequenceRows(290, 4), SequenceRows(60, 13)], options)
    case.check(case.run())


def test_the_weight_of_a_sink_by_hand() -> None:
    # Keys of zero have a score of 0: 3 of them and a sink of log 5 have weights of 1/8 and 5/8.
    shape = Shape(1, 1, 16, "f32")
    pages = Pages(shape, 1)
    pages.put([0], np.zeros((3, 1, 16), F32), np.repeat(np.array([[[8]], [[16]], [[24]]], F32), 16, axis=2))
    options = AttentionOptions(sinks=np.log(5, dtype=F32).reshape(1))
    result = AttentionRun(shape, Rows(pages, [[0]], [3]), np.ones((1, 1, 16), F32), options).run()
    assert np.allclose(result, 6, rtol=1e-6)


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize(("key_dim", "value_dim"), [(16, 40), (192, 128), (24, 64), (128, 8), (512, 256), (7, 19)])
def test_keys_and_values_may_differ_in_size(key_dim: int, value_dim: int, kv: str) -> None:
    shape = Shape(4, 2, key_dim, kv, value_dim)
    case = AttentionCase(shape, [SequenceRows(61, 7), SequenceRows(280, 1)], AttentionOptions(key_dim**-0.5))
    case.check(case.run())


@st.composite
def cases(draw: st.DrawFn) -> AttentionCase:
    kv_heads, group = draw(st.sampled_from([(1, 1), (1, 4), (2, 3), (3, 1), (1, 9), (2, 8), (1, 20), (1, 75)]))
    key_dim = draw(st.sampled_from(DIMS[: 6 if kv_heads * group > 9 else None]))
    value_dim = draw(st.sampled_from([key_dim, key_dim, 24]))
    shape = Shape(kv_heads * group, kv_heads, key_dim, draw(st.sampled_from(KINDS)), value_dim)
    sequences = []
    for _ in range(draw(st.integers(1, 4))):
        visible, rows = draw(st.sampled_from([1, 3, 63, 64, 200, 257, 520])), draw(st.sampled_from([1, 1, 2, 7, 20]))
        sequences.append(SequenceRows(visible, rows, draw(st.sampled_from([0, 0, 0, visible - 1, visible // 2]))))
    options = AttentionOptions(
        scale=key_dim**-0.5,
        window=draw(st.sampled_from([0, 0, 1, 5, 64, 100, 256, 1000])),
        soft_cap=draw(st.sampled_from([0.0, 0.0, 2.0, 30.0])),
        sinks=draw(st.sampled_from([None, sinks_of(shape)])),
    )
    return AttentionCase(shape, sequences, options, draw(st.integers(0, 9)))


@settings(max_examples=40, deadline=None)
@given(cases(), st.data())
def test_any_batch_and_any_share_of_the_work(case: AttentionCase, data: st.DataObject) -> None:
    result = case.run()
    case.check(result)
    for _ in range(3):
        threads, room = data.draw(st.sampled_from([1, 3, 8, 64])), data.draw(st.sampled_from([0, 9, 256, 2000]))
        split = case.run(threads, data.draw(st.sampled_from([1, 3, 1000])), room)
        assert same_bits(split, result), f"{threads} threads, room for {room} partial results"


def test_options_are_not_those_of_another_op() -> None:
    """Each option changes the result."""
    shape, base = Shape(2, 1, 16, "f32"), AttentionOptions(1.0)
    case = AttentionCase(shape, [SequenceRows(100, 1)], base)
    results = []
    for options in (base, replace(base, window=50), replace(base, soft_cap=1.0), replace(base, sinks=sinks_of(shape))):
        case.options = options
        results.append(case.run().tobytes())
    assert len({*results}) == 4
