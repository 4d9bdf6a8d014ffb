"""Attention over KV pages, against float64."""

import numpy as np
import pytest

from kquants.kv_layout import QUERY_TILE
from support.attention import TOLERANCE, attend, seen_by, softmax_attention, some_cells
from support.kernels import run_op, same_bits
from support.kv_pages import F32, KINDS, TYPES, Pages, Rows, Shape, store_record

VISIBLE = [1, 63, 64, 65, 130]
SHAPES = [
    Shape(heads, kv_heads, head_dim, kv)
    for heads, kv_heads, head_dim in [(1, 1, 8), (4, 2, 16), (4, 1, 40), (8, 2, 64), (2, 2, 128)]
    for kv in KINDS
]


@pytest.mark.parametrize("fill", [0xFF, 0x00, 0x7C])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_is_softmax_over_the_visible_cells(shape: Shape, fill: int) -> None:
    # Memory that no row sees, such as the tails of pages and other layers, holds NaN, 0 or 5e36.
    rng = np.random.default_rng(shape.key_dim)
    pages = Pages(shape, 9, fill)
    tables = [[8], [3], [0], [5, 1], [7, 2, 6]]
    cells = [some_cells(rng, shape, n) for n in VISIBLE]
    for table, (k, v) in zip(tables, cells, strict=True):
        pages.put(table, k, v)
    q = rng.standard_normal((len(VISIBLE), shape.heads, shape.key_dim)).astype(F32)
    scale = shape.key_dim**-0.5
    result, seen = attend(shape, pages, tables, VISIBLE, q, scale), seen_by(shape, q, scale)
    for row, (k, v) in enumerate(cells):
        exact = softmax_attention(shape, seen[row], k, v, float(F32(scale)))
        assert np.abs(result[row] - exact).max() < TOLERANCE, f"{VISIBLE[row]} cells"
        alone = attend(shape, pages, tables[row : row + 1], VISIBLE[row : row + 1], q[row : row + 1], scale)
        assert same_bits(alone[0], result[row]), "depends on the other rows"


def test_earlier_rows_of_a_sequence_do_not_see_later_cells() -> None:
    shape, rng = Shape(2, 1, 16, "f32"), np.random.default_rng(2)
    k, v = some_cells(rng, shape, 130)
    v[70:], k[70:] = 1e30, 1e30
    pages = Pages(shape, 3)
    pages.put([2, 0, 1], k, v)
    q = rng.standard_normal((3, 2, 16)).astype(F32)
    result = attend(shape, pages, [[2, 0, 1]] * 3, [1, 64, 70], q, 0.25)
    for row, n in enumerate([1, 64, 70]):
        assert np.abs(result[row] - softmax_attention(shape, q[row], k[:n], v[:n], 0.25)).max() < TOLERANCE


GROUPED = [(1, 1, 8), (2, 1, 16), (4, 1, 40), (6, 2, 16), (8, 1, 16), (24, 2, 8)]


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), GROUPED)
def test_consecutive_rows_are_as_alone(heads: int, kv_heads: int, head_dim: int, kv: str) -> None:
    # Kernels process consecutive rows of a sequence together. Here rows cross into new pages, change to another
    # sequence and back, and skip a cell; cells that no row may see are NaN.
    shape, rng = Shape(heads, kv_heads, head_dim, kv), np.random.default_rng(heads)
    first, second = [4, 2, 0], [1, 3]
    runs = [(first, range(58, 69)), (second, range(1, 4)), (first, range(126, 131)), (second, range(60, 63)),
            (second, range(64, 68)), (first, range(66, 63, -1))]  # fmt: skip
    tables = [table for table, visible in runs for _ in visible]
    visible = [n for _, numbers in runs for n in numbers]
    q = rng.standard_normal((len(visible), heads, head_dim)).astype(F32)
    pages, cells = Pages(shape, 5), {id(table): some_cells(rng, shape, 130) for table in (first, second)}
    for table in (first, second):
        k, v = cells[id(table)]
        pages.put(table, k[: 64 * len(table)], v[: 64 * len(table)])
    together, seen = attend(shape, pages, tables, visible, q, 0.25), seen_by(shape, q, 0.25)
    for row, (table, n) in enumerate(zip(tables, visible, strict=True)):
        k, v = cells[id(table)]
        assert np.abs(together[row] - softmax_attention(shape, seen[row], k[:n], v[:n], 0.25)).max() < TOLERANCE
        own = Pages(shape, 5)
        own.put(table, k[:n], v[:n])
        alone = attend(shape, own, [table], [n], q[row : row + 1], 0.25)
        assert same_bits(alone[0], together[row]), f"row {row}, {n} cells"
    # Those whose logits are wanted: some consecutive, with others between them, the last of a sequence alone.
    wanted = [2, 3, 4, 7, 10, 12, 14, 16, *range(18, len(visible))]
    assert same_bits(attend(shape, pages, tables, visible, q, 0.25, wanted), together[wanted])
    assert same_bits(attend(shape, pages, tables, visible, q, 0.25, wanted[-1:]), together[-1:])


LONG = [(1, 1, 16), (4, 1, 40), (6, 2, 16), (8, 1, 64), (16, 2, 16), (QUERY_TILE + 4, 1, 8)]


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), LONG)
def test_split_kv_gives_the_same_bits(heads: int, kv_heads: int, head_dim: int, kv: str) -> None:
    """The KV blocks of rows are distributed over threads where there are more than one."""
    shape, rng = Shape(heads, kv_heads, head_dim, kv), np.random.default_rng(heads)
    first, second = [*range(9, 30, 2)], [*range(8, 29, 2)]
    visible = [256, 257, 258, 640, 641, 30, 511, 512, 513, 700]
    tables = [first] * 5 + [second] * 5
    pages, cells = Pages(shape, 30), [some_cells(rng, shape, 700) for _ in range(2)]
    for table, (k, v) in zip((first, second), cells, strict=True):
        pages.put(table, k, v)
    q = rng.standard_normal((len(visible), heads, head_dim)).astype(F32)
    scale = head_dim**-0.5
    together, seen = attend(shape, pages, tables, visible, q, scale), seen_by(shape, q, scale)
    for row, n in enumerate(visible):
        k, v = cells[row // 5]
        assert (
            np.abs(together[row] - softmax_attention(shape, seen[row], k[:n], v[:n], float(F32(scale)))).max()
            < TOLERANCE
        )
        alone = attend(shape, pages, tables[row : row + 1], [n], q[row : row + 1], scale)
        assert same_bits(alone[0], together[row]), f"row {row}, {n} cells"
    assert same_bits(attend(shape, pages, tables, visible, q, scale, threads=1), together), "one thread"
    more = 17 - len(visible)
    wanted = [0, 1, 3, 8, 9]
    some = attend(shape, pages, tables, visible, q, scale, wanted)
    assert same_bits(some, together[wanted]), "rows whose logits are wanted, alone"
    large = attend(shape, pages, tables + [first] * more, visible + [9] * more, np.vstack([q, q[:more]]), scale)
    assert same_bits(large[: len(visible)], together)


def test_a_later_row_that_is_nan_stays_unseen() -> None:
    shape, rng, table = Shape(2, 1, 16, "f32"), np.random.default_rng(5), [0, 1]
    k, v = some_cells(rng, shape, 72)
    k[67:], v[67:] = np.nan, np.nan
    pages, q = Pages(shape, 2), rng.standard_normal((12, 2, 16)).astype(F32)
    pages.put(table, k, v)
    result = attend(shape, pages, [table] * 12, list(range(61, 73)), q, 0.25)
    assert np.isnan(result).all(axis=(1, 2)).tolist() == [False] * 7 + [True] * 5
    for row in range(7):
        n = 61 + row
        assert np.abs(result[row] - softmax_attention(shape, q[row], k[:n], v[:n], 0.25)).max() < TOLERANCE


@pytest.mark.parametrize("kv", TYPES)
@pytest.mark.parametrize("peak", [0, 63, 64, 100, 129])
def test_a_score_far_above_the_others_takes_all(peak: int, kv: str) -> None:
    # Scores of -600, -300 and 600: exp of their differences is 0, in whichever page the largest is.
    shape = Shape(1, 1, 16, kv)
    k, v = np.zeros((130, 1, 16), TYPES[kv]), np.random.default_rng(3).standard_normal((130, 1, 16))
    k[:, :, 0] = -600
    k[64:, :, 0] = -300
    k[peak, :, 0] = 600
    v = v.astype(TYPES[kv])
    pages, q = Pages(shape, 3), np.zeros((1, 1, 16), F32)
    pages.put([0, 1, 2], k, v)
    q[0, 0, 0] = 1
    assert same_bits(attend(shape, pages, [[0, 1, 2]], [130], q, 1.0)[0], v[peak].astype(F32))


def test_nan_in_a_visible_key_shows() -> None:
    shape = Shape(1, 1, 16, "f32")
    pages, q = Pages(shape, 2, 0), np.ones((1, 1, 16), F32)
    pages.keys[1, 0, 5, 3] = np.nan
    assert np.isnan(attend(shape, pages, [[0, 1]], [70], q, 1.0)).all()
    assert np.isfinite(attend(shape, pages, [[0, 1]], [60], q, 1.0)).all()  # which does not see it


def test_nan_in_a_visible_value_shows() -> None:
    shape = Shape(1, 1, 16, "f32")
    pages, q = Pages(shape, 2, 0), np.ones((1, 1, 16), F32)
    pages.values[1, 0, 3, 5] = np.nan
    result = attend(shape, pages, [[0, 1]], [70], q, 1.0)[0, 0]
    assert np.isnan(result).tolist() == [d == 5 for d in range(16)]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("at", ["key", "value"])
def test_q8_0_pages_show_what_is_not_finite(at: str, bad: float) -> None:
    """A block with such a value has no scale: all of its values are NaN, and so is the result of rows that see them."""
    shape, table = Shape(1, 1, 64, "q8_0"), [0, 1]
    pages, (k, v) = Pages(shape, 2, 0), some_cells(np.random.default_rng(4), shape, 66)
    rows = Rows(pages, [table] * 66, [*range(1, 67)], position_tables=[np.array([[[1, 0]]] * 66, F32)])
    (k if at == "key" else v)[65, 0, 40] = bad
    q, x, y = np.zeros((66, 64), F32), k[:, 0].copy(), v[:, 0].copy()
    op = store_record(shape, q, x, y, rope_dim=2)
    run_op(op, rows.record, 66, shape.scratch)
    result = attend(shape, pages, [table] * 2, [65, 66], np.ones((2, 1, 64), F32), 1.0)[:, 0]
    assert np.isfinite(result[0]).all()
    assert np.isnan(result[1]).tolist() == [at == "key" or d >= 32 for d in range(64)]
