"""Products of quantized rows in NumPy, as they are documented; and weights and activations to try them with."""

from functools import reduce
from typing import Any, NamedTuple

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from kquants import BLOCK_FORMATS
from kquants.formats.grids.iq1 import IQ1
from kquants.layout import LARGEST_SUM
from kquants.tuning import tuning  # `test_cpus` tells which tiles are split on each CPU
from support.kernels import KINDS, put_scales, random_blocks, scales_of
from support.quantized_rows import BlockRows, Rows, SuperRows

F32 = np.float32
Array = NDArray[Any]


def integers(name: str, w: Array) -> tuple[Array, Array, Array]:
    """Of each 16 weights: (q [rows of w, halves, 16], scale, minimum [rows of w, halves]), float64 but for the q.

    gguf decodes them: with d = 1 and dmin = 0 where all scales are 1, then where all weights are 1; with d = 0 and
    dmin = 1 the minima, negative. (Grids have no 1: d is `unit` for q.)
    """
    blocks, plain = w.reshape(-1, KINDS[name].nbytes), PLAIN[name]
    q = decoded(name, blocks, plain.scales, plain.unit, 0).astype(np.int64)
    scale, minimum = (
        decoded(name, blocks, *given)[:, ::16] for given in ((plain.weights, plain.d_of_weights, 0), ([], 0, 1))
    )
    return q.reshape(len(w), -1, 16), scale.reshape(len(w), -1), minimum.reshape(len(w), -1)


def factors(name: str, w: Array) -> list[Array]:
    """d, and dmin or m where there is one, of each (super-)block, float32 [rows of w, blocks]."""
    blocks = w.reshape(-1, KINDS[name].nbytes)
    return [scale.reshape(len(w), -1) / F32(PLAIN[name].unit) for scale in scales_of(KINDS[name], blocks)]


Change = tuple[int, ...]


class Plain(NamedTuple):
    """Bytes of a block, (first, last + 1, value), that make all its scales 1, or all its weights.

    A fourth number has the bits that stay as they are. Grids have no 1: weights are integers under a d of `unit`. All
    weights become 1 under `d_of_weights`.
    """

    scales: list[Change]
    weights: list[Change]
    unit: int = 1
    d_of_weights: int = 1


# Words with signs and, in their highest four bits, a scale; all of them, in IQ2_XXS with points between them.
SCALES_3 = [(69 + 4 * j, 70 + 4 * j, 0, 0x0F) for j in range(8)]
SIGNS_3 = [change for j in range(8) for change in ((66 + 4 * j, 69 + 4 * j, 0), (69 + 4 * j, 70 + 4 * j, 0, 0xF0))]
SCALES_2 = [(9 + 8 * j, 10 + 8 * j, 0, 0x0F) for j in range(8)]
SIGNS_2 = [change for j in range(8) for change in ((2 + 8 * j, 9 + 8 * j, 0), (9 + 8 * j, 10 + 8 * j, 0, 0xF0))]

# Points of which a weight is one eighth, below words with a scale in the highest bits but one.
IQ1_POINT = next(i for i, point in enumerate(IQ1.codes) if point[0] == 1)
SCALES_1 = [(35 + 2 * j, 36 + 2 * j, 0, 0x8F) for j in range(8)]
SIGNS_1 = [change for j in range(8) for change in ((34 + 2 * j, 35 + 2 * j, 0), (35 + 2 * j, 36 + 2 * j, 0, 0x70))]

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
    "IQ3_S": Plain([(106, 110, 0)], [(2, 106, 0)]),
    "IQ3_XXS": Plain(SCALES_3, [(2, 66, 0), *SIGNS_3], 4),
    "IQ2_S": Plain([(74, 82, 0)], [(2, 74, 0)], 8),
    "IQ2_XS": Plain([(66, 74, 0)], [(2, 66, 0)], 8),
    "IQ2_XXS": Plain(SCALES_2, SIGNS_2, 8),
    "Q2_0": Plain([], [(2, 18, 0xAA)]),
    "Q1_0": Plain([], [(2, 18, 0xFF)]),
    "TQ2_0": Plain([], [(0, 64, 0xAA)]),
    "TQ1_0": Plain([], [(0, 52, 0xFF)]),
    "IQ1_M": Plain([(48, 56, 0)], [(0, 32, IQ1_POINT), (32, 48, 0)], 8, 8),
    "IQ1_S": Plain(SCALES_1, [(2, 34, IQ1_POINT), *SIGNS_1], 8, 8),
    "MXFP4": Plain([(0, 1, 128)], [(1, 17, 0x11)]),  # 2^(128 - 127) · half of what is computed with
    "NVFP4": Plain([(0, 4, 0x40)], [(4, 36, 0x11)]),  # 2 · half of what is computed with
}


def decoded(name: str, blocks: Array, changes: list[Change], d: int, dmin: int) -> Array:
    """What gguf makes of blocks with some bytes changed, d and dmin among them; [blocks, weights]."""
    changed = blocks.copy()
    for start, stop, value, *kept in changes:
        changed[:, start:stop] = changed[:, start:stop] & sum(kept) | value
    put_scales(KINDS[name], changed, *(np.array([value], np.float16).view("<u2") for value in (d, dmin)))
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
    given = [scale[:, ::2].astype(F32)] if name == "MXFP4" else factors(name, w)
    d, *m = (v.repeat(KINDS[name].block // 32, axis=1) for v in given)
    sums, y = x.sums.astype(F32), np.zeros((len(x.q), len(w)), F32)
    for b in range(q.shape[1] // 2):
        dx, of_block = x.scales[:, b, None], x.q[:, 32 * b : 32 * b + 32]
        dots = of_block @ q[:, 2 * b : 2 * b + 2].reshape(len(w), 32).T
        y = fma(dots.astype(F32), d[:, b] * dx, y)
        if m:
            y = fma(m[0][:, b], dx * sums[:, b, None], y)
    return y


def half_block_expression(name: str, w: Array, x: BlockRows) -> Array:
    """The same with a scale for each half of a block."""
    q, scale, _ = integers(name, w)
    y, d = np.zeros((len(x.q), len(w)), F32), scale.astype(F32)
    for b in range(0, q.shape[1], 2):
        first, second = ((x.q[:, 16 * h : 16 * h + 16] @ q[:, h].T).astype(F32) for h in (b, b + 1))
        y = fma(fma(second, d[:, b + 1], first * d[:, b]), x.scales[:, b // 2, None], y)
    return y


def super_expression(name: str, w: Array, x: SuperRows) -> Array:
    """The documented sum over the super-blocks in order: integers, then three steps in float32."""
    q, scale, minimum = integers(name, w)
    (d, *dmin), powers, sums = factors(name, w), 1 << x.exponents.repeat(2, axis=1), x.sums
    y = np.zeros((len(x.q), len(w)), F32)
    for i in range(d.shape[1]):
        a, b = np.zeros((2, *y.shape), np.int64)
        for h in range(16 * i, 16 * i + 16):
            dots = x.q[:, 16 * h : 16 * h + 16] @ q[:, h].T
            a += powers[:, h, None] * scale[:, h].astype(np.int64) * dots
            b -= powers[:, h, None] * minimum[:, h].astype(np.int64) * sums[:, h, None]
        v = a.astype(F32) * d[:, i]
        if dmin:
            v = fma(-dmin[0][:, i], b.astype(F32), v)
        y = fma(v, x.d[:, i, None], y)
    return y


BITS = {"Q8_0": 8, "IQ4_NL": 7, "IQ4_XS": 7, "Q3_K": 3}
BITS |= dict.fromkeys(("Q6_K", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS"), 6)
BITS |= dict.fromkeys(("IQ3_S", "IQ1_S", "IQ1_M", "Q5_K", "Q5_1", "Q5_0", "MXFP4", "NVFP4"), 5)
BITS |= dict.fromkeys(("Q4_K", "Q4_1", "Q4_0"), 4) | dict.fromkeys(("Q2_K", "Q2_0", "Q1_0", "TQ2_0", "TQ1_0"), 2)


def expression(name: str, w: Array, x: Rows) -> Array:
    """The documented sum; where tiles are large, that of several sums, each over as many columns."""
    columns, tile_bytes = x.q.shape[1], 16 * w.shape[1]
    split, parts = tuning().split_k.get(BITS[name], ()), 1
    for count, limit in zip(split, (20 * 1024, 80 * 1024), strict=False):
        if tile_bytes > limit and columns % (256 * count) == 0:
            parts = count
    if parts == 1:
        return expression_of_part(name, w, x)
    width, size = columns // parts, w.shape[1] // parts
    of_w = [np.ascontiguousarray(w[:, i * size : (i + 1) * size]) for i in range(parts)]
    first, *others = [expression_of_part(name, v, x.columns(i * width, (i + 1) * width)) for i, v in enumerate(of_w)]
    return reduce(np.add, others, first)


def expression_of_part(name: str, w: Array, x: Rows) -> Array:
    if isinstance(x, SuperRows):
        y = super_expression(name, w, x)
    else:
        y = (half_block_expression if name == "NVFP4" else block_expression)(name, w, x)
    assert y.dtype == F32
    return y


def some_weights(rng: np.random.Generator, name: str, rows: int, columns: int) -> Array:
    blocks = random_blocks(rng, KINDS[name], rows * columns // KINDS[name].block)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(110, 140, len(blocks))
    if name == "NVFP4":
        blocks[:, :4] &= 0x7F
    return blocks.reshape(rows, -1)


def largest_weights(name: str, weight: int) -> Array:
    """All integers of the blocks of 16 rows of 512 at an extreme: an int8 or int16 step in between would saturate."""
    kind = KINDS[name]
    w = np.full((16, 512 // kind.block, kind.nbytes), weight, np.uint8)
    for i, scale in enumerate((0x00, 0x7F, 0x80, 0xFF)):
        for start, stop, *_ in PLAIN[name].scales if kind.block == 256 else []:
            w[4 * i : 4 * i + 4, :, start:stop] = scale
    put_scales(kind, w.reshape(-1, kind.nbytes), *[0x3C00] * 2)
    if name == "NVFP4":
        w[:, :, :4] = (0x38, 0x40, 0x4C, 0x7E)
    return w.reshape(16, -1)


def extremes(name: str) -> Rows:
    """Four rows of 512 of the largest integers that there may be, in one direction, in the other, and mixed."""
    if name in BLOCK_FORMATS:
        signs = np.array([[127] * 512, [-127] * 512, [127, -127] * 256, [127] * 16 + [-127] * 496])
        return BlockRows(signs, np.ones((4, 16), F32))
    largest = tuning().activation_int8_max
    half = np.array([largest] * 8 + [LARGEST_SUM - 8 * largest] + [0] * 7)
    # All words that `kquants.formats.winograd` adds.
    two_by_two = np.hstack([half, half, np.roll(half, 8), np.roll(half, 4)])
    even = np.array([64] * 15 + [63])
    words = np.array([largest, largest, 0, 0] * 8)  # bytes of words that share an int16
    mixed = [np.hstack([half, -even] * 2), np.hstack([words, -words[::-1]])]
    q = np.array([np.tile(two_by_two, 8), -np.tile(two_by_two, 8), *(np.tile(both, 8) for both in mixed)])
    return SuperRows(q, np.ones((4, 2), F32), np.full((4, 16), 3))
