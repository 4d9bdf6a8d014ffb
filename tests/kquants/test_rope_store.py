"""RoPE and the write into KV pages, against float64."""

from dataclasses import dataclass
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
class Stored:
    """Operands and results of `rope_store`: q and k are rotated in place; all float32 [row, head, head_dim]."""

    q: Array
    k: Array
    v: Array
    pages: Pages


def rope_store(shape: Shape, rope_dim: int, rope_type: int, tables: list[list[int]], positions: list[int]) -> Stored:
    rng, n = np.random.default_rng(rope_dim), len(positions)
    table = np.arange(1 + max(positions))[:, None] * 100.0 ** (-2 * np.arange(rope_dim // 2) / rope_dim)
    angles, cos_sin = table[positions], np.stack([np.cos(table), np.sin(table)], axis=-1).astype(F32)
    q = rng.standard_normal((n, shape.heads * shape.key_dim + EXTRA)).astype(F32)
    k, v = (rng.standard_normal((n, shape.kv_heads * shape.key_dim + EXTRA)).astype(F32) for _ in range(2))
    before = [x.copy() for x in (q, k, v)]
    pages = Pages(shape, 1 + max(page for table in tables for page in table))
    rows = Rows(pages, tables, [p + 1 for p in positions], position_tables=[cos_sin])
    op = store_record(shape, q, k, v, rope_dim, rope_type)
    run_op(op, rows.record, n * shape.kv_heads, shape.scratch)
    for x, was, heads in zip((q, k, v), before, (shape.heads, shape.kv_heads, 0), strict=True):
        width = heads * shape.key_dim
        assert same_bits(x[:, width:].copy(), was[:, width:].copy()), "wrote past the row"
        wanted = rotated(was[:, :width].reshape(n, heads, shape.key_dim), angles, rope_type).reshape(n, width)
        # Angles, cosine and sine are rounded once, the products once and their sum once, at magnitudes up to 6.
        assert np.abs(x[:, :width] - wanted).max(initial=0) < 1e-6
    q, k, v = (x[:, :-EXTRA].reshape(n, -1, shape.key_dim) for x in (q, k, v))
    return Stored(q, k, v, pages)


ROPES = [(8, 8), (16, 16), (40, 40), (64, 64), (128, 128), (64, 16), (40, 20), (16, 2)]


@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize("rope_type", [ROPE_NORM, ROPE_NEOX])
@pytest.mark.parametrize(("head_dim", "rope_dim"), ROPES)
def test_rope_store(head_dim: int, rope_dim: int, rope_type: int, kv: str) -> None:
    shape = Shape(4, 2, head_dim, kv)
    tables, positions = [[3, 0], [1], [3, 0], [3, 0], [3, 0]], [62, 0, 63, 64, 65]
    stored = rope_store(shape, rope_dim, rope_type, tables, positions)
    wanted = Pages(shape, 4)
    for row, (table, position) in enumerate(zip(tables, positions, strict=True)):
        page, cell = table[position // PAGE], position % PAGE
        wanted.write(page, cell, stored.k[row], stored.v[row])
    assert np.array_equal(stored.pages.memory, wanted.memory), "wrote other cells than its own, or other values"


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
