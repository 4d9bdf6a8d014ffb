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
from kquants.cpu import lowering
from kquants.layout import MOST_TOKENS, TILE_ROWS, matmul_scratch

F32 = np.float32
Array = NDArray[Any]
EXTRA = 24
"""Bytes or floats between rows that no kernel may touch."""


def beyond(x: Array) -> Array:
    """Rows of x and those behind them that a kernel may read, full of NaN, but must not use."""
    return np.vstack([x, np.full((MOST_TOKENS, x.shape[1]), 0xFF if x.dtype == np.uint8 else np.nan, x.dtype)])


class Quantized:
    """Rows of quantized activations: q int8 [rows, n], and for each 32 a scale and sums."""

    def __init__(self, q: Array, scales: Array) -> None:
        self.q, self.scales = q.astype(np.int64), scales.astype(F32)
        halves = self.q.reshape(len(q), -1, 2, 16).sum(3)
        sums = halves.sum(2)
        with np.errstate(all="ignore"):
            self.scaled_sums = self.scales * sums.astype(F32)
        ints = [-sums, -halves[:, :, 0], -halves[:, :, 1]]
        words = [self.scales.view(np.int32), self.scaled_sums.view(np.int32), *(i.astype(np.int32) for i in ints)]
        tail = np.stack(words, axis=2)
        rows = [q.astype(np.int8).view(np.uint8), tail.reshape(len(q), -1).view(np.uint8)]
        self.buffer = beyond(np.hstack([*rows, np.full((len(q), EXTRA), 0xFF, np.uint8)]))


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
    run_op(op, batch_record(tokens), tiles, matmul_scratch(columns))
    assert same_bits(y[:, rows:].copy(), untouched), "wrote beside the output"
    written: Array = y[:, :rows].copy()
    return written


def parts(name: str, w: Array) -> tuple[Array, Array, Array]:
    """Of each 16 weights: (q, scale d · s, minimum dmin · m), in the order and rounding of `kquants.tiled`.

    q int64 [rows of w, halves, 16], the others float32 [rows of w, halves]. gguf decodes the integers: with
    d = 1 and dmin = 0, then with d = 1 and the scales alone.
    """
    kind = KINDS[name]
    blocks = w.reshape(len(w), -1, kind.nbytes)
    d, *dmin = (blocks[:, :, at : at + 2].copy().view(np.float16)[:, :, 0].astype(F32) for at in kind.scales)
    halves = kind.block // 16
    if name == "Q8_0":
        q, s, m = blocks[:, :, 2:].view(np.int8), np.ones((*d.shape, halves)), None
    elif name == "Q6_K":
        s = blocks[:, :, 192:208].view(np.int8)
        q = decoded(name, with_bytes(blocks, 192, 208, 1)).reshape(*d.shape, 256)
        m = None
    else:
        s, m = six_bits(blocks[:, :, 4:16])
        # All scales 1 and all minima 0.
        plain = with_bytes(with_bytes(blocks, 4, 8, 1), 8, 12, 0)
        q = decoded(name, with_bytes(plain, 12, 16, 1)).reshape(*d.shape, 256)
        s, m = np.repeat(s, 2, axis=2), np.repeat(m, 2, axis=2)
    scale = (d[..., None] * s.astype(F32)).reshape(len(w), -1)
    minimum = (dmin[0][..., None] * m.astype(F32)).reshape(len(w), -1) if m is not None else np.zeros_like(scale)
    return q.astype(np.int64).reshape(len(w), -1, 16), scale, minimum


def with_bytes(blocks: Array, start: int, stop: int, value: int) -> Array:
    changed = blocks.copy()
    changed[:, :, start:stop] = value
    return changed


def decoded(name: str, blocks: Array) -> Array:
    """What gguf makes of blocks with d = 1 (and dmin = 1)."""
    plain = blocks.reshape(-1, blocks.shape[-1]).copy()
    for at in KINDS[name].scales:
        plain[:, at : at + 2] = np.array([1], np.float16).view(np.uint8)
    values: Array = gguf.quants.dequantize(plain, Type[name])
    return values


def six_bits(packed: Array) -> tuple[Array, Array]:
    """Scales and minima of Q4_K's eight blocks, from its 12 bytes."""
    low, middle, high = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=-1)
    minima = np.concatenate([middle & 63, (high >> 4) | (middle >> 6 << 4)], axis=-1)
    return scales, minima


def fma(a: Array, b: Array, c: Array) -> Array:
    """a · b + c of float32, rounded once: exact in float64, but for a sum that is rounded to odd."""
    product, c = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits = total.copy().view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    bits += np.where(inexact, np.where((error > 0) == (total > 0), 1, -1), 0)
    return bits.view(np.float64).astype(F32)


def expression(name: str, w: Array, x: Quantized) -> Array:
    """The documented sum over the blocks in order, each step float32."""
    q, scale, minimum = parts(name, w)
    y = np.zeros((len(x.q), len(w)), F32)
    dots = [x.q[:, 16 * h : 16 * h + 16] @ q[:, h].T for h in range(q.shape[1])]
    for b in range(q.shape[1] // 2):
        dx, sx = x.scales[:, b, None], x.scaled_sums[:, b, None]
        whole = [dots[2 * b], dots[2 * b + 1]] if name == "Q6_K" else [dots[2 * b] + dots[2 * b + 1]]
        # High nibbles may stay where they are: the same, unless a product leaves the range of float32.
        times = 16 if name == "Q4_K" and b % 2 and "VNNI" in lowering() else 1
        for h, dot in enumerate(whole):
            y = fma((times * dot).astype(F32), scale[:, 2 * b + h] / F32(times) * dx, y)
        if name == "Q4_K":
            y = fma(-minimum[:, 2 * b], sx, y)
    assert y.dtype == F32
    return y


def check(name: str, w: Array, x: Quantized, tokens: int, accumulate: bool = False) -> None:
    before = np.linspace(-9, 9, tokens * len(w), dtype=F32).reshape(tokens, len(w)) if accumulate else None
    y = product(name, w, x.q.shape[1], x.buffer, x.buffer.shape[1], tokens, before)
    with np.errstate(all="ignore"):
        wanted = expression(name, w, x)[:tokens]
        wanted = wanted if before is None else before + wanted
    assert same_bits(y, wanted)


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
    for tokens in (1, 2, 3, 8, 9, 17):
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
    padded = beyond(np.hstack([padded_rows(x), np.full((len(x), EXTRA), np.nan, F32)]))
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
