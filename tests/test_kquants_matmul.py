"""Matrix products: quantized ones equal their documented expression to the bit, float ones the exact sum closely."""

from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

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
from quantized_rows import BlockRows, Rows, SuperRows, buffer_of, rows_for

from kquants import BLOCK_FORMATS, FLOAT_FORMATS, QUANTIZED_FORMATS
from kquants.compiler.cpu import is_wide_zen_4
from kquants.layout import FLOAT_ROWS, LARGEST_SUM, LARGEST_X, MOST_ROWS, MOST_TOKENS, TILE_ROWS, matmul_scratch
from kquants.products.parts import LARGE, WHOLE  # `test_kquants_cpus` tells how large tiles stay whole on each CPU
from kquants.records import Product
from kquants.simd import HAS_BF16_PAIRS

F32 = np.float32
Array = NDArray[Any]
EXTRA = 24
"""Bytes or floats between rows that no kernel may touch."""


def beyond(x: Array) -> Array:
    """Rows of x and those behind them that a kernel may read, full of NaN, but must not use."""
    return np.vstack([x, np.full((MOST_TOKENS, x.shape[1]), 0xFF if x.dtype == np.uint8 else np.nan, x.dtype)])


def product(name: str, w: Array, columns: int, x: Array, x_bytes: int, tokens: int, before: Array | None) -> Array:
    """The kernel's y [tokens, rows of w], accumulated on `before`; checks that it wrote nothing else.

    Tiles of W, which are its units, give the same alone and in a chunk, where several share the way to the rows of x.
    """
    rows = len(w)
    w, tiles = fenced(w), -(-rows // TILE_ROWS)
    results = list[Array]()
    for chunk in {1, tiles}:
        y = guarded((tokens, rows + EXTRA), F32)
        untouched = y[:, rows:].copy()
        if before is not None:
            y[:, :rows] = before
        arguments = Product(
            w=w,
            rows=rows,
            columns=columns,
            row_bytes=w[0].nbytes,
            x=x,
            x_bytes=x_bytes,
            y=y,
            y_bytes=y[0].nbytes,
            accumulate=int(before is not None),
        )
        op = op_record(f"matmul_{name.lower()}", arguments, units=tiles)
        run_op(op, batch_record(tokens), tiles, matmul_scratch(columns, name), chunk)
        assert same_bits(y[:, rows:].copy(), untouched), "wrote beside the output"
        results.append(y[:, :rows].copy())
    assert all(same_bits(result, results[0]) for result in results), "depends on the tiles beside it"
    return results[0]


def integers(name: str, w: Array) -> tuple[Array, Array, Array]:
    """Of each 16 weights: (q [rows of w, halves, 16], scale, minimum [rows of w, halves]), float64 but for the q.

    gguf decodes them: with d = 1 and dmin = 0 where all scales are 1, then where all weights are 1; with d = 0 and
    dmin = 1 the minima, negative.
    """
    blocks, plain = w.reshape(-1, KINDS[name].nbytes), PLAIN[name]
    q = decoded(name, blocks, plain.scales, 1, 0).astype(np.int64)
    scale, minimum = (decoded(name, blocks, *given)[:, ::16] for given in ((plain.weights, 1, 0), ([], 0, 1)))
    return q.reshape(len(w), -1, 16), scale.reshape(len(w), -1), minimum.reshape(len(w), -1)


def factors(name: str, w: Array) -> list[Array]:
    """d, and dmin or m where there is one, of each (super-)block, float32 [rows of w, blocks]."""
    blocks = w.reshape(-1, KINDS[name].nbytes)
    return [blocks[:, at : at + 2].copy().view(np.float16).astype(F32).reshape(len(w), -1) for at in KINDS[name].scales]


class Plain(NamedTuple):
    """Bytes of a block, (first, last + 1, value), that make all its scales 1, or all its weights."""

    scales: list[tuple[int, int, int]]
    weights: list[tuple[int, int, int]]


PLAIN = {
    "Q8_0": Plain([], [(2, 34, 1)]),
    "Q6_K": Plain([(192, 208, 1)], [(0, 128, 0x11), (128, 192, 0xAA)]),
    "Q5_K": Plain([(4, 8, 1), (8, 12, 0), (12, 16, 1)], [(16, 48, 0), (48, 176, 0x11)]),
    "Q4_K": Plain([(4, 8, 1), (8, 12, 0), (12, 16, 1)], [(16, 144, 0x11)]),
    "Q3_K": Plain([(96, 104, 0x11), (104, 108, 0xAA)], [(0, 32, 0xFF), (32, 96, 0x55)]),
    "Q2_K": Plain([(0, 16, 1)], [(16, 80, 0x55)]),
    "Q5_1": Plain([], [(4, 8, 0), (8, 24, 0x11)]),
    "Q5_0": Plain([], [(2, 6, 0xFF), (6, 22, 0x11)]),
    "Q4_1": Plain([], [(4, 20, 0x11)]),
    "Q4_0": Plain([], [(2, 18, 0x99)]),
    "IQ4_NL": Plain([], [(2, 18, 0x88)]),
    "IQ4_XS": Plain([(2, 4, 0xAA), (4, 8, 0x11)], [(8, 136, 0x88)]),
    "MXFP4": Plain([(0, 1, 128)], [(1, 17, 0x11)]),  # 2^(128 - 127) · half of what is computed with
}


def decoded(name: str, blocks: Array, changes: list[tuple[int, int, int]], d: int, dmin: int) -> Array:
    """What gguf makes of blocks with some bytes changed, d and dmin among them; [blocks, weights]."""
    changed = blocks.copy()
    for start, stop, value in changes:
        changed[:, start:stop] = value
    for at, value in zip(KINDS[name].scales, (d, dmin), strict=False):
        changed[:, at : at + 2] = np.array([value], np.float16).view(np.uint8)
    values: Array = gguf.quants.dequantize(changed, Type[name])
    return values


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


def block_expression(name: str, w: Array, x: BlockRows) -> Array:
    """The documented sum over the blocks in order, each step float32."""
    q, scale, _ = integers(name, w)
    # MXFP4 has no factor: gguf's scale is all of it.
    d, *m = [scale[:, ::2].astype(F32)] if name == "MXFP4" else factors(name, w)
    y = np.zeros((len(x.q), len(w)), F32)
    for b in range(q.shape[1] // 2):
        dx, of_block = x.scales[:, b, None], x.q[:, 32 * b : 32 * b + 32]
        dots = of_block @ q[:, 2 * b : 2 * b + 2].reshape(len(w), 32).T
        y = fma(dots.astype(F32), d[:, b] * dx, y)
        if m:
            y = fma(m[0][:, b], dx * x.sums[:, b, None].astype(F32), y)
    return y


def super_expression(name: str, w: Array, x: SuperRows) -> Array:
    """The documented sum over the super-blocks in order: integers, then three steps in float32."""
    q, scale, minimum = integers(name, w)
    (d, *dmin), powers = factors(name, w), 1 << x.exponents.repeat(2, axis=1)
    y = np.zeros((len(x.q), len(w)), F32)
    for i in range(d.shape[1]):
        a, b = np.zeros((2, *y.shape), np.int64)
        for h in range(16 * i, 16 * i + 16):
            dots = x.q[:, 16 * h : 16 * h + 16] @ q[:, h].T
            a += powers[:, h, None] * scale[:, h].astype(np.int64) * dots
            b -= powers[:, h, None] * minimum[:, h].astype(np.int64) * x.sums[:, h, None]
        v = a.astype(F32) * d[:, i]
        if dmin:
            v = fma(-dmin[0][:, i], b.astype(F32), v)
        y = fma(v, x.d[:, i, None], y)
    return y


MANY_PARTS = {"Q8_0": 8, "IQ4_NL": 8, "IQ4_XS": 8} | dict.fromkeys(("Q5_K", "Q5_1", "Q5_0", "MXFP4"), 16)
MANY_PARTS["Q6_K"] = 4 if is_wide_zen_4() else 16


def expression(name: str, w: Array, x: Rows) -> Array:
    """The documented sum; where tiles are large, that of several sums, each over as many columns."""
    columns, tile_bytes = x.q.shape[1], 16 * w.shape[1]
    many = MANY_PARTS.get(name, 4)
    parts = many if tile_bytes > 80 * 1024 and columns % (256 * many) == 0 else 4
    if WHOLE or (is_wide_zen_4() and name != "Q6_K") or tile_bytes <= LARGE or columns % (256 * parts):
        return expression_of_part(name, w, x)
    width, size = columns // parts, w.shape[1] // parts
    of_w = [np.ascontiguousarray(w[:, i * size : (i + 1) * size]) for i in range(parts)]
    first, *others = [expression_of_part(name, v, x.columns(i * width, (i + 1) * width)) for i, v in enumerate(of_w)]
    return reduce(np.add, others, first)


def expression_of_part(name: str, w: Array, x: Rows) -> Array:
    y = super_expression(name, w, x) if isinstance(x, SuperRows) else block_expression(name, w, x)
    assert y.dtype == F32
    return y


def check(name: str, w: Array, x: Rows, tokens: int, accumulate: bool = False) -> None:
    before = np.linspace(-9, 9, tokens * len(w), dtype=F32).reshape(tokens, len(w)) if accumulate else None
    y = product(name, w, x.q.shape[1], buffer_of(x, tokens), 0, tokens, before)
    with np.errstate(all="ignore"):
        wanted = expression(name, w, x)[:tokens]
        wanted = wanted if before is None else before + wanted
    assert same_bits(y, wanted)


def some_weights(rng: np.random.Generator, name: str, rows: int, columns: int) -> Array:
    blocks = random_blocks(rng, KINDS[name], rows * columns // KINDS[name].block)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(110, 140, len(blocks))
    return blocks.reshape(rows, -1)


# 56 rows are a strip of three tiles, and a part of one. Where rows come in parts, tiles of 4096 columns are large in
# all formats, those of 2048 in some. 4352 are no four parts. Those of 8192 may be so large that four parts are, too:
# 7168 are no eight and 10240 no 16. Those of 12288 are so large in all of four bits and more, of which some stay in
# four.
SHAPES = [(1, 256), (16, 256), (17, 512), (40, 1536), (56, 512), (37, 4096), (17, 2048), (17, 4352)]
SMALL_SHAPES = [(5, 32), (33, 64), (16, 352)]
QUANTIZED_CASES = [(name, *shape) for name in QUANTIZED_FORMATS for shape in SHAPES]
QUANTIZED_CASES += [(name, *shape) for name in QUANTIZED_FORMATS for shape in SMALL_SHAPES if KINDS[name].block == 32]
QUANTIZED_CASES += [(name, 37, 8192) for name in ("Q8_0", "Q6_K", "Q5_K", "Q5_1")]
QUANTIZED_CASES += [(name, 17, 12288) for name in ("Q4_K", "Q4_1", "IQ4_NL", "IQ4_XS", "MXFP4", "Q5_0")]
QUANTIZED_CASES += [("Q8_0", 17, 7168), ("Q6_K", 17, 10240)]


@pytest.mark.parametrize(("name", "rows", "columns"), QUANTIZED_CASES)
def test_quantized_products_are_the_expression(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows + columns)
    w, x = some_weights(rng, name, rows, columns), rows_for(name).random(rng, 17, columns)
    for tokens in (1, 2, 3, 4, 5, 8, 9, 17):
        check(name, w, x, tokens)
    check(name, w, x, 2, accumulate=True)
    check(name, w, x, 8, accumulate=True)
    check(name, w, x, 17, accumulate=True)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "Q6_K"])  # blocks that do not fill a group, pairs, halves
def test_the_largest_batch(name: str) -> None:
    rng = np.random.default_rng(2)
    narrow = (32, 288) if name in BLOCK_FORMATS else (256, 512)  # the first has least scratch to spare
    for columns in (*narrow, 4096):
        w, x = some_weights(rng, name, 70, columns), rows_for(name).random(rng, MOST_ROWS, columns)
        for tokens in (MOST_ROWS, 131):  # all, and some beyond the 128 that may pass by a tile together
            check(name, w, x, tokens)


@pytest.mark.parametrize("times", [1, 8])  # 512 columns, and 4096, in parts on some CPUs
@pytest.mark.parametrize("weight", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_the_largest_integers_are_exact(name: str, weight: int, times: int) -> None:
    x, w = extremes(name), largest_weights(name, weight)
    w, again = np.tile(w, (1, times)), {part: np.tile(v, (3, times)) for part, v in vars(x).items()}
    for tokens in (4, 8, 12):
        check(name, w, replace(x, **again), tokens)
    for t in range(4):
        alone = {part: values[t : t + 1] for part, values in again.items()}
        check(name, w, replace(x, **alone), 1)


def largest_weights(name: str, weight: int) -> Array:
    """All integers of the blocks of 16 rows of 512 at an extreme: an int8 or int16 step in between would saturate."""
    kind = KINDS[name]
    w = np.full((16, 512 // kind.block, kind.nbytes), weight, np.uint8)
    for i, scale in enumerate((0x00, 0x7F, 0x80, 0xFF)):
        for start, stop, _ in PLAIN[name].scales if kind.block == 256 else []:
            w[4 * i : 4 * i + 4, :, start:stop] = scale
    for at in kind.scales:
        w[:, :, at : at + 2] = np.array([1], np.float16).view(np.uint8)
    return w.reshape(16, -1)


def extremes(name: str) -> Rows:
    """Four rows of 512 of the largest integers that there may be, in one direction, in the other, and mixed."""
    if name in BLOCK_FORMATS:
        signs = np.array([[127] * 512, [-127] * 512, [127, -127] * 256, [127] * 16 + [-127] * 496])
        return BlockRows(signs, np.ones((4, 16), F32))
    half = np.array([LARGEST_X] * 8 + [63] + [0] * 7)
    assert half.sum() == LARGEST_SUM
    # All words that `kquants.formats.winograd` adds.
    two_by_two = np.hstack([half, half, np.roll(half, 8), np.roll(half, 4)])
    even = np.array([64] * 15 + [63])
    words = np.array([LARGEST_X, LARGEST_X, 0, 0] * 8)  # bytes of words that share an int16
    mixed = [np.hstack([half, -even] * 2), np.hstack([words, -words[::-1]])]
    q = np.array([np.tile(two_by_two, 8), -np.tile(two_by_two, 8), *(np.tile(both, 8) for both in mixed)])
    return SuperRows(q, np.ones((4, 2), F32), np.full((4, 16), 3))


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e-38, 3e38 / 127, np.inf, np.nan])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_activation_scales_at_the_edges(name: str, scale: float) -> None:
    rng = np.random.default_rng(5)
    x = rows_for(name).random(rng, 9, 512)
    x = replace(
        x, **{"d" if isinstance(x, SuperRows) else "scales": np.full((9, 512 // KINDS[name].block), scale, F32)}
    )
    w = some_weights(rng, name, 16, 512)
    for tokens in (1, 4, 5, 9):
        check(name, w, x, tokens)


@pytest.mark.parametrize("bits", [0x0000, 0x8000, 0x0001, 0x03FF, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_weight_scales_at_the_edges(name: str, bits: int) -> None:
    rng = np.random.default_rng(6)
    w = some_weights(rng, name, 16, 512)
    blocks = w.reshape(-1, KINDS[name].nbytes)
    for at in KINDS[name].scales:
        blocks[::2, at : at + 2] = bits & 0xFF, bits >> 8
    for tokens in (1, 4, 5, 9):
        check(name, w, rows_for(name).random(rng, 9, 512), tokens)


@pytest.mark.parametrize("times", [1, 8])  # 512 columns, and 4096: on some CPUs in four parts, with the same sums
@pytest.mark.parametrize("name", ["Q4_1", "Q4_K", "Q6_K"])
def test_products_that_are_minus_zero_stay_so(name: str, times: int) -> None:
    # Products so small that they round to -0: whatever they are added to must leave them that.
    rng = np.random.default_rng(5)
    w, x = some_weights(rng, name, 16, 512), rows_for(name).random(rng, 17, 512)
    blocks = w.reshape(-1, KINDS[name].nbytes)
    for at in KINDS[name].scales:
        blocks[:, at : at + 2] = 1, 0
    scales = "d" if isinstance(x, SuperRows) else "scales"
    x = replace(x, **{scales: np.full_like(getattr(x, scales), 1e-45)})
    w, x = np.tile(w, (1, times)), replace(x, **{part: np.tile(v, (1, times)) for part, v in vars(x).items()})
    assert (expression(name, w, x).view(np.uint32) == 0x80000000).any()
    for tokens in (1, 4, 5, 9, 17):
        check(name, w, x, tokens)


def float_weights(name: str, values: Array) -> tuple[Array, Array]:
    """(the rows in a float format, their values as float64)."""
    data = gguf.quants.quantize(values.astype(F32), Type[name])
    return data, gguf.quants.dequantize(data, Type[name]).reshape(values.shape).astype(np.float64)


def float_product(name: str, w: Array, x: Array, tokens: int, before: Array | None = None) -> Array:
    padded = beyond(np.hstack([padded_rows(x), np.full((len(x), EXTRA), np.nan, F32)]))
    return product(name, w, x.shape[1], padded, padded[0].nbytes, tokens, before)


FLOAT_CASES = [(1, 1), (16, 17), (40, 64), (17, 172), (33, 256), (5, 15), (3, 16), (70, 1040)]


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
    tokens = MOST_ROWS  # the last register tile is not whole
    x = rng.standard_normal((tokens, columns)).astype(F32)
    # A lane takes columns / 16 fused steps, and four more add up the 16 lanes; each rounds by 2^-24 at most.
    steps = -(-columns // 16) + 4
    bound = 1.01 * steps * 2.0**-24 * (np.abs(x) @ np.abs(values).T)
    many, before = float_product(name, w, x, tokens), rng.standard_normal((tokens, rows)).astype(F32)
    assert same_bits(float_product(name, w, x, tokens, before), before + many)
    meant = float_weights("BF16", x)[1] if name == "BF16" and HAS_BF16_PAIRS else x.astype(np.float64)
    assert (np.abs(many - meant @ values.T) <= bound).all()
    for fewer in (1, 2, 3, 4, 43, FLOAT_ROWS + 1, 2 * FLOAT_ROWS + 8):
        assert same_bits(float_product(name, w, x, fewer), many[:fewer]), "depends on the number of rows"


@pytest.mark.parametrize("columns", [40, 1029])  # few, and a few more than are packed at once
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_float_products_keep_inf_and_nan(name: str, columns: int) -> None:
    w, _ = float_weights(name, np.ones((16, columns)))
    x = np.ones((5, columns), F32)
    x[1, -1], x[2, 3], x[3, 0], x[3, 1] = np.inf, np.nan, np.inf, -np.inf
    for tokens in (1, 3, 4, 5):
        y = float_product(name, w, x, tokens)
        assert np.array_equal(y[:, 0], [columns, np.inf, np.nan, np.nan, columns][:tokens], equal_nan=True)


@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_what_lies_behind_the_last_packed_column_does_not_count(name: str) -> None:
    # Columns 1024 … 1028 are packed where 0 … 4 were, or 512 … 516 or 768 … 772: an Inf eight columns further on is
    # still behind them.
    values = np.ones((16, 1029))
    values[:, [8, 520, 776]] = np.inf
    w, _ = float_weights(name, values)
    x = np.ones((43, 1029), F32)
    for tokens in (1, 5, 43):
        assert (float_product(name, w, x, tokens) == np.inf).all()


def test_only_the_rows_of_the_outputs_are_computed() -> None:
    # An op over the outputs reads their count from the batch, here 2 of 5 rows.
    w, values = float_weights("F32", np.arange(16 * 16).reshape(16, 16) % 7)
    x, y = np.eye(5, 16, dtype=F32), guarded((5, 16), F32)
    given = Product(w=w, rows=16, columns=16, row_bytes=64, x=x, x_bytes=64, y=y, y_bytes=64, accumulate=0)
    op = op_record("matmul_f32", given, units=1, outputs=True)
    run_op(op, batch_record(5, outputs=2), 1, matmul_scratch(16, "F32"))
    assert np.array_equal(y[:2], values.T[:2])
    assert same_bits(y[2:].copy(), guarded((3, 16), F32))
