"""Products with quantized weights equal their documented expression to the bit."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants import BLOCK_FORMATS, QUANTIZED_FORMATS
from kquants.layout import SLICE_ROWS
from support.documented_matmul import expression, extremes, largest_weights, some_weights
from support.kernels import KINDS, put_scales, same_bits
from support.matmul import matmul
from support.quantized_rows import Rows, SuperRows, buffer_of, rows_for

F32 = np.float32
Array = NDArray[Any]


def expected(name: str, w: Array, x: Rows) -> Array:
    """`expression`, which may overflow."""
    with np.errstate(all="ignore"):
        return expression(name, w, x)


def check(
    name: str, w: Array, x: Rows, batches: Iterable[int], accumulated: Iterable[int] = (), wanted: Array | None = None
) -> None:
    """Compare the kernel with `expression`: the first n rows of x for each batch size n, and accumulated on y.

    `wanted` is what the expression gives, if that is known.
    """
    wanted = expected(name, w, x) if wanted is None else wanted
    for tokens in batches:
        assert same_bits(matmul(name, w, x.q.shape[1], buffer_of(x, tokens), 0, tokens, None), wanted[:tokens])
    for tokens in accumulated:
        before = np.linspace(-9, 9, tokens * len(w), dtype=F32).reshape(tokens, len(w))
        y = matmul(name, w, x.q.shape[1], buffer_of(x, tokens), 0, tokens, before)
        with np.errstate(all="ignore"):
            assert same_bits(y, before + wanted[:tokens])


# 56 rows are a strip of three tiles, and a part of one. Where rows come in parts, tiles of 4096 columns are large in
# all formats, those of 2048 in some. 4352 are no four parts. Those of 8192 may be so large that four parts are, too:
# 7168 are no eight and 10240 no 16. Those of 12288 are so large in all of four bits and more, of which some stay in
# four.
SHAPES = [(1, 256), (16, 256), (17, 512), (40, 1536), (56, 512), (37, 4096), (17, 2048), (17, 4352)]
SMALL_SHAPES = [(5, 32), (33, 64), (16, 352), (16, 384)]
QUANTIZED_CASES = [(name, *shape) for name in QUANTIZED_FORMATS for shape in SHAPES]
QUANTIZED_CASES += [
    (name, *shape) for name in BLOCK_FORMATS for shape in SMALL_SHAPES if shape[1] % KINDS[name].block == 0
]
QUANTIZED_CASES += [("NVFP4", rows, columns) for rows, columns in ((33, 128), (16, 320), (17, 12288))]
QUANTIZED_CASES += [(name, 37, 8192) for name in ("Q8_0", "Q6_K", "Q5_K", "Q5_1")]
QUANTIZED_CASES += [
    (name, 17, 12288) for name in ("Q4_K", "Q4_1", "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ2_XXS", "MXFP4", "Q5_0")
]
QUANTIZED_CASES += [("Q8_0", 17, 7168), ("Q6_K", 17, 10240)]


@pytest.mark.parametrize(("name", "rows", "columns"), QUANTIZED_CASES)
def test_quantized_products_are_the_expression(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows + columns)
    w, x = some_weights(rng, name, rows, columns), rows_for(name).random(rng, 17, columns)
    check(name, w, x, (1, 2, 3, 4, 5, 8, 9, 17), accumulated=(2, 8, 17))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "Q6_K"])  # blocks that do not fill a group, pairs, halves
def test_the_largest_slice_of_a_batch(name: str) -> None:
    rng = np.random.default_rng(2)
    narrow = (32, 288) if name in BLOCK_FORMATS else (256, 512)  # the first has least scratch to spare
    for columns in (*narrow, 4096):
        w, x = some_weights(rng, name, 70, columns), rows_for(name).random(rng, SLICE_ROWS, columns)
        check(name, w, x, (SLICE_ROWS, 131))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "Q6_K"])
def test_rows_of_several_slices(name: str) -> None:
    rng = np.random.default_rng(3)
    for columns in (512, 4096):
        w, x = some_weights(rng, name, 40, columns), rows_for(name).random(rng, 2 * SLICE_ROWS + 20, columns)
        check(name, w, x, (2 * SLICE_ROWS + 20, 2 * SLICE_ROWS + 1), accumulated=(SLICE_ROWS + 9,))


@pytest.mark.parametrize("times", [1, 8])  # 512 columns, and 4096, in parts on some CPUs
@pytest.mark.parametrize("weight", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_the_largest_integers_are_exact(name: str, weight: int, times: int) -> None:
    w = np.tile(largest_weights(name, weight), (1, times))
    x = extremes(name)
    x = replace(x, **{part: np.tile(v, (1, times)) for part, v in vars(x).items()})
    wanted = expected(name, w, x)  # of four rows, each on its own
    again = replace(x, **{part: np.tile(v, (3, 1)) for part, v in vars(x).items()})
    check(name, w, again, (4, 8, 12), wanted=np.tile(wanted, (3, 1)))
    for t in range(4):
        alone = {part: values[t : t + 1] for part, values in vars(x).items()}
        check(name, w, replace(x, **alone), [1], wanted=wanted[t : t + 1])


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e-38, 3e38 / 127, np.inf, np.nan])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_activation_scales_at_the_edges(name: str, scale: float) -> None:
    rng = np.random.default_rng(5)
    x = rows_for(name).random(rng, 9, 512)
    x = replace(x, **{part: np.full_like(v, scale) for part, v in vars(x).items() if part in ("d", "scales")})
    check(name, some_weights(rng, name, 16, 512), x, (1, 4, 5, 9))


@pytest.mark.parametrize("bits", [0x0000, 0x8000, 0x0001, 0x03FF, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00])
@pytest.mark.parametrize("name", QUANTIZED_FORMATS)
def test_weight_scales_at_the_edges(name: str, bits: int) -> None:
    rng = np.random.default_rng(6)
    w = some_weights(rng, name, 16, 512)
    put_scales(KINDS[name], w.reshape(-1, KINDS[name].nbytes)[::2], bits, bits)
    check(name, w, rows_for(name).random(rng, 9, 512), (1, 4, 5, 9))


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
    check(name, w, x, (1, 4, 5, 9, 17))
