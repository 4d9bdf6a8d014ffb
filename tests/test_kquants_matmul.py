"""Matrix products: quantized ones equal their documented expression to the bit, float ones the exact sum closely."""

from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from kernels import (
    KINDS,
    batch_record,
    fenced,
    guarded,
    op_record,
    padded_rows,
    random_blocks,
    run_op,
    same_bits,
)
from numpy.typing import NDArray

from kquants import FLOAT_FORMATS, QUANTIZED_FORMATS
from kquants.layout import SCRATCH_WEIGHT_BYTES, TILE_ROWS

F32 = np.float32
Array = NDArray[Any]
EXTRA = 24
"""Bytes or floats between rows that no kernel may touch."""


class Quantized:
    """Rows of quantized activations: q int8 [rows, n], and of each 32 a scale, and their sum."""

    def __init__(self, q: Array, scales: Array) -> None:
        self.q, self.scales = q.astype(np.int64), scales.astype(F32)
        self.sums = self.q.reshape(len(q), -1, 32).sum(2)
        tail = np.stack([self.scales.view(np.int32), self.sums.astype(np.int32)], axis=2)
        rows = [q.astype(np.int8).view(np.uint8), tail.reshape(len(q), -1).view(np.uint8)]
        self.buffer = np.hstack([*rows, np.full((len(q), EXTRA), 0xFF, np.uint8)])


def some_activations(rng: np.random.Generator, rows: int, n: int) -> Quantized:
    scales = rng.uniform(0, 0.1, (rows, n // 32)) * rng.choice([1, 1, 0, 1e-38, 1e36], (rows, n // 32))
    return Quantized(rng.integers(-127, 128, (rows, n)), scales)


def product(name: str, w: Array, columns: int, x: Array, x_bytes: int, tokens: int, before: Array | None) -> Array:
    """The kernel's y [tokens, rows of w], accumulated on `before`; checks that it wrote nothing else."""
    rows = len(w)
    y = guarded((tokens, rows + EXTRA), F32)
    untouched = y[:, rows:].copy()
    if before is not None:
        y[:, :rows] = before
    tiles = -(-rows // TILE_ROWS)
    arguments = (fenced(w), rows, columns, w[0].nbytes, x, x_bytes, y, y[0].nbytes, int(before is not None))
    op = op_record(f"matmul_{name.lower()}", *arguments, units=tiles)
    run_op(op, batch_record(tokens), tiles, TILE_ROWS * SCRATCH_WEIGHT_BYTES * (columns + 16))
    assert same_bits(y[:, rows:].copy(), untouched), "wrote beside the output"
    written: Array = y[:, :rows].copy()
    return written


def integers(name: str, w: Array, d: float, dmin: float) -> Array:
    """What gguf makes of the blocks with other scales: with d = 1 and dmin = 0, the integers scale · q."""
    kind = KINDS[name]
    blocks = w.reshape(-1, kind.nbytes).copy()
    for at, scale in zip(kind.scales, (d, dmin), strict=False):
        blocks[:, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    values = gguf.quants.dequantize(blocks, Type[name]).reshape(len(w), -1, 32)
    assert (values == np.rint(values)).all()
    whole: Array = values.astype(np.int64)
    return whole


def scales(name: str, w: Array) -> list[Array]:
    """d and dmin of each block of 32, float32 [rows of w, blocks]; dmin is 0 where the format has none."""
    kind = KINDS[name]
    blocks = w.reshape(len(w), -1, kind.nbytes)
    found = [blocks[:, :, at : at + 2].copy().view(np.float16)[:, :, 0].astype(F32) for at in kind.scales]
    return [np.repeat(s, kind.block // 32, axis=1) for s in [*found, np.zeros_like(found[0])][:2]]


def expression(name: str, w: Array, x: Quantized) -> Array:
    """y = y + (d · float(isum) - dmin · float(msum)) · d_x over the blocks of 32 in order, each step float32."""
    d, dmin = scales(name, w)
    scaled = integers(name, w, 1, 0)
    minima = integers(name, w, 1, 0)[:, :, 0] - integers(name, w, 1, 1)[:, :, 0]
    y = np.zeros((len(x.q), len(w)), F32)
    for b in range(scaled.shape[1]):
        isum = x.q[:, 32 * b : 32 * b + 32] @ scaled[:, b].T
        msum = x.sums[:, b, None] * minima[:, b]
        assert max(np.abs(isum).max(), np.abs(msum).max()) < 1 << 31
        y = y + (d[:, b] * isum.astype(F32) - dmin[:, b] * msum.astype(F32)) * x.scales[:, b, None]
    assert y.dtype == F32
    return y


def check(name: str, w: Array, x: Quantized, tokens: int, accumulate: bool = False) -> None:
    before = np.linspace(-9, 9, tokens * len(w), dtype=F32).reshape(tokens, len(w)) if accumulate else None
    y = product(name, w, x.q.shape[1], x.buffer, x.buffer.shape[1], tokens, before)
    with np.errstate(all="ignore"):
        wanted = expression(name, w, x)[:tokens]
    assert same_bits(y, wanted if before is None else before + wanted)


def some_weights(rng: np.random.Generator, name: str, rows: int, columns: int) -> Array:
    blocks = random_blocks(rng, KINDS[name], rows * columns // KINDS[name].block)
    return blocks.reshape(rows, -1)


SHAPES = [(1, 256), (16, 256), (17, 512), (40, 1536)]
SMALL_SHAPES = [(5, 32), (33, 64), (16, 96)]
QUANTIZED_CASES = [(name, *shape) for name in QUANTIZED_FORMATS for shape in SHAPES]
QUANTIZED_CASES += [("Q8_0", *shape) for shape in SMALL_SHAPES]


@pytest.mark.parametrize(("name", "rows", "columns"), QUANTIZED_CASES)
def test_quantized_products_are_the_expression(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows + columns)
    w, x = some_weights(rng, name, rows, columns), some_activations(rng, 17, columns)
    for tokens in (1, 2, 3, 4, 5, 17):
        check(name, w, x, tokens)
    check(name, w, x, 2, accumulate=True)
    check(name, w, x, 17, accumulate=True)


@pytest.mark.parametrize("weight", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_the_largest_integers_are_exact(name: str, weight: int) -> None:
    # All integers of the block at an extreme: an int8 or int16 step in between would saturate.
    kind = KINDS[name]
    w = np.full((16, 512 // kind.block, kind.nbytes), weight, np.uint8)
    for at in kind.scales:
        w[:, :, at : at + 2] = np.array([1], np.float16).view(np.uint8)
    signs = np.array([[127] * 512, [-127] * 512, [127, -127] * 256, [127] * 16 + [-127] * 496])
    for tokens in (1, 4):
        check(name, w.reshape(16, -1), Quantized(signs, np.ones((4, 16))), tokens)


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e-38, 3e38 / 127, np.inf, np.nan])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_activation_scales_at_the_edges(name: str, scale: float) -> None:
    rng = np.random.default_rng(5)
    x = Quantized(rng.integers(-127, 128, (4, 512)), np.full((4, 16), scale))
    w = some_weights(rng, name, 16, 512)
    for tokens in (1, 4):
        check(name, w, x, tokens)


@pytest.mark.parametrize("bits", [0x0000, 0x8000, 0x0001, 0x03FF, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_weight_scales_at_the_edges(name: str, bits: int) -> None:
    rng = np.random.default_rng(6)
    w = some_weights(rng, name, 16, 512)
    blocks = w.reshape(-1, KINDS[name].nbytes)
    for at in KINDS[name].scales:
        blocks[::2, at : at + 2] = bits & 0xFF, bits >> 8
    for tokens in (1, 4):
        check(name, w, some_activations(rng, 4, 512), tokens)


def float_weights(name: str, values: Array) -> tuple[Array, Array]:
    """(the rows in a float format, their values as float64)."""
    data = gguf.quants.quantize(values.astype(F32), Type[name])
    return data, gguf.quants.dequantize(data, Type[name]).reshape(values.shape).astype(np.float64)


def float_product(name: str, w: Array, x: Array, tokens: int, before: Array | None = None) -> Array:
    padded = np.hstack([padded_rows(x), np.full((len(x), EXTRA), np.nan, F32)])
    return product(name, w, x.shape[1], padded, padded[0].nbytes, tokens, before)


FLOAT_CASES = [(1, 1), (16, 17), (40, 64), (17, 172), (33, 256), (5, 15), (3, 16)]


@pytest.mark.parametrize(("rows", "columns"), FLOAT_CASES)
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_float_products_of_small_integers_are_exact(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(columns)
    w, values = float_weights(name, rng.integers(-50, 51, (rows, columns)))
    x = rng.integers(-50, 51, (17, columns))
    before = rng.integers(-99, 99, (17, rows)).astype(F32)
    for tokens in (1, 2, 3, 4, 5, 17):
        exact = (x[:tokens] @ values.T).astype(F32)
        assert np.array_equal(float_product(name, w, x, tokens), exact)
        assert np.array_equal(float_product(name, w, x, tokens, before[:tokens]), exact + before[:tokens])


@pytest.mark.parametrize(("rows", "columns"), FLOAT_CASES)
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_float_products_round_once_a_step(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(columns)
    w, values = float_weights(name, rng.standard_normal((rows, columns)))
    x = rng.standard_normal((17, columns)).astype(F32)
    # A lane takes columns / 16 fused steps, and four more add up the 16 lanes; each rounds by 2^-24 at most.
    steps = -(-columns // 16) + 4
    bound = 1.01 * steps * 2.0**-24 * (np.abs(x) @ np.abs(values).T)
    many = float_product(name, w, x, 17)
    assert (np.abs(many - x.astype(np.float64) @ values.T) <= bound).all()
    for tokens in (1, 3, 4):
        assert same_bits(float_product(name, w, x, tokens), many[:tokens]), "depends on the number of rows"


@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_float_products_keep_inf_and_nan(name: str) -> None:
    w, _ = float_weights(name, np.ones((16, 40)))
    x = np.ones((4, 40), F32)
    x[1, 39], x[2, 3], x[3, 0], x[3, 1] = np.inf, np.nan, np.inf, -np.inf
    for tokens in (3, 4):
        y = float_product(name, w, x, tokens)
        assert np.array_equal(y[:, 0], [40, np.inf, np.nan, np.nan][:tokens], equal_nan=True)


def test_only_the_rows_of_the_outputs_are_computed() -> None:
    # An op over the outputs reads their count from the batch, here 2 of 5 rows.
    w, values = float_weights("F32", np.arange(16 * 16).reshape(16, 16) % 7)
    x, y = np.eye(5, 16, dtype=F32), guarded((5, 16), F32)
    op = op_record("matmul_f32", w, 16, 16, 64, x, 64, y, 64, 0, units=1, outputs=True)
    run_op(op, batch_record(5, outputs=2), 1, 16 * 4 * 32)
    assert np.array_equal(y[:2], values.T[:2])
    assert same_bits(y[2:].copy(), guarded((3, 16), F32))
