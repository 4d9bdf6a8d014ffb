"""RoPE and the write into KV pages, against float64."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kquants.kv_layout import PAGE
from kquants.records import ROPE_NEOX, ROPE_NORM
from support.kernels import GUARD, Array, run_op, same_bits
from support.kv_pages import EXTRA, F32, KINDS, Pages, Rows, Shape, store_record


def rotated(x: Array, angles: Array, rope_type: int) -> Array:
    """Heads [row, head, head_dim] turned by angles [row, pair], in float64."""
    pairs = angles.shape[1]
    first = np.arange(pairs) if rope_type == ROPE_NEOX else 2 * np.arange(pairs)
    second = first + (pairs if rope_type == ROPE_NEOX else 1)
    turned = x.astype(np.float64)
    z = (turned[:, :, first] + 1j * turned[:, :, second]) * np.exp(1j * angles)[:, None]
    turned[:, :, first], turned[:, :, second] = z.real, z.imag
    return turned


@dataclass
class RowsToStore:
    """Rows with page tables, positions and cells; by default cells are positions."""

    tables: list[list[int]]
    positions: list[int]
    cells: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = self.cells or self.positions


@dataclass
class StoreResult:
    """Operands and results of `rope_store`: q and k are rotated in place; all float32 [row, head, size of a head]."""

    q: Array
    k: Array
    v: Array
    pages: Pages


def rows_of(rng: np.random.Generator, n: int, width: int) -> Array:
    return rng.standard_normal((n, width + EXTRA)).astype(F32)


def rope_store(
    shape: Shape, rope_dim: int, rope_type: int, batch: RowsToStore, factors: Array | None = None, writes: bool = True
) -> StoreResult:
    """Run the kernel, with a factor of q for each position, and without k and v where it shall write nothing.

    Checks q and k.
    """
    rng, n = np.random.default_rng(rope_dim), len(batch.positions)
    table = np.arange(1 + max(batch.positions))[:, None] * 100.0 ** (-2 * np.arange(rope_dim // 2) / max(rope_dim, 1))
    angles, cos_sin = table[batch.positions], np.stack([np.cos(table), np.sin(table)], axis=-1).astype(F32)
    q, k = rows_of(rng, n, shape.heads * shape.key_dim), rows_of(rng, n, shape.kv_heads * shape.key_dim)
    v = rows_of(rng, n, shape.kv_heads * shape.value_dim)
    before = [x.copy() for x in (q, k, v)]
    pages = Pages(shape, 1 + max(page for table in batch.tables for page in table))
    tables = [cos_sin] if factors is None else [cos_sin, factors]
    ends = [cell + 1 for cell in batch.cells]
    rows = Rows(pages, batch.tables, ends, positions=batch.positions, position_tables=tables)
    factor_table = -1 if factors is None else 2
    op = store_record(shape, q, k if writes else None, v if writes else None, rope_dim, rope_type, factor_table)
    run_op(op, rows.record, n * shape.kv_heads, shape.scratch)
    q_factors = np.ones(n) if factors is None else factors[batch.positions].astype(np.float64)
    for x, was, heads, row_factors in ((q, before[0], shape.heads, q_factors), (k, before[1], shape.kv_heads, None)):
        width = heads * shape.key_dim
        assert same_bits(x[:, width:].copy(), was[:, width:].copy()), "wrote past the row"
        wanted = rotated(was[:, :width].reshape(n, heads, shape.key_dim), angles, rope_type)
        wanted = wanted if row_factors is None else wanted * row_factors[:, None, None]
        if x is k and not writes:
            wanted = was[:, :width]
        # Angles, cosine and sine are rounded once, the products once and their sum once, at magnitudes up to 6.
        assert np.abs(x[:, :width] - wanted.reshape(n, width)).max() < 1e-6
    assert same_bits(v, before[2])
    q, k = (x[:, :-EXTRA].reshape(n, -1, shape.key_dim) for x in (q, k))
    return StoreResult(q, k, v[:, :-EXTRA].reshape(n, -1, shape.value_dim), pages)


def check_pages(stored: StoreResult, batch: RowsToStore) -> None:
    """The rows' own cells hold k and v, all others what they held."""
    wanted = Pages(stored.pages.shape, len(stored.pages.memory))
    for row, (table, cell) in enumerate(zip(batch.tables, batch.cells, strict=True)):
        wanted.write(table[cell // PAGE], cell % PAGE, stored.k[row], stored.v[row])
    assert np.array_equal(stored.pages.memory, wanted.memory), "wrote other cells than its own, or other values"


USUAL = RowsToStore([[3, 0], [1], [3, 0], [3, 0], [3, 0]], [62, 0, 63, 64, 65])
ROPES = [(8, 8), (16, 16), (40, 40), (64, 64), (128, 128), (64, 16), (40, 20), (16, 2), (16, 0), (192, 64), (512, 128)]


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize("rope_type", [ROPE_NORM, ROPE_NEOX])
@pytest.mark.parametrize(("head_dim", "rope_dim"), ROPES)
def test_rope_store(head_dim: int, rope_dim: int, rope_type: int, kv: str) -> None:
    check_pages(rope_store(Shape(4, 2, head_dim, kv), rope_dim, rope_type, USUAL), USUAL)


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize(("key_dim", "value_dim"), [(16, 40), (40, 16), (192, 128), (20, 7), (512, 8)])
def test_keys_and_values_of_different_sizes(key_dim: int, value_dim: int, kv: str) -> None:
    check_pages(rope_store(Shape(6, 3, key_dim, kv, value_dim), 16, ROPE_NEOX, USUAL), USUAL)


def test_a_rows_position_is_not_its_cell() -> None:
    """Images have positions that do not count on; rows of a tree share a position."""
    batch = RowsToStore([[2, 0]] * 4, [7, 7, 3, 120], [64, 65, 66, 9])
    check_pages(rope_store(Shape(4, 2, 16, "f32"), 16, ROPE_NORM, batch), batch)


@pytest.mark.parametrize("rope_dim", [0, 8, 20])
def test_q_is_multiplied_by_the_factor_of_its_position(rope_dim: int) -> None:
    factors = np.linspace(1, 3, 200).astype(F32)
    check_pages(rope_store(Shape(4, 2, 20, "f16"), rope_dim, ROPE_NORM, USUAL, factors), USUAL)


@pytest.mark.parametrize("rope_dim", [0, 16])
def test_without_k_only_q_is_rotated(rope_dim: int) -> None:
    stored = rope_store(Shape(4, 2, 16, "f16"), rope_dim, ROPE_NEOX, USUAL, np.linspace(1, 3, 70).astype(F32), False)
    assert (stored.pages.memory == 0xFF).all()


@pytest.mark.parametrize("value", [65504.0, 65519.0, 65520.0, 1e-8, 6e-8, -0.0, 1.0009765625, np.inf, np.nan])
def test_values_round_to_half_as_numpy_rounds(value: float) -> None:
    shape = Shape(1, 1, 8, "f16")
    pages, q = Pages(shape, 1), np.zeros((1, 8), F32)
    k, v = np.full((1, 8), value, F32), np.full((1, 8), value, F32)
    rows = Rows(pages, [[0]], [1], position_tables=[np.array([[[1, 0]]], F32)])
    op = store_record(shape, q, k, v, rope_dim=2)
    run_op(op, rows.record, 1)
    with np.errstate(over="ignore"):
        half: Any = np.array([value], F32).astype(np.float16)
    assert same_bits(pages.values[0, 0, 0, :8].astype(F32), np.repeat(half, 8).astype(F32))
    assert same_bits(pages.keys[0, 0, 2:, 0].astype(F32), np.repeat(half, 6).astype(F32))
    assert GUARD not in pages.memory
