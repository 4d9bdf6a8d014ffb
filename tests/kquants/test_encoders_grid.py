"""The encoders of IQ3_S, IQ3_XXS and IQ2_XS against llama.cpp's own, the best of all points, and cases by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.formats.grids.grid import Grid
from kquants.formats.grids.iq2_xs import IQ2_XS
from kquants.formats.grids.iq3_s import IQ3_S
from kquants.formats.grids.iq3_xxs import IQ3_XXS
from support.encoder_oracle import llama_cpp_encode
from support.encoder_samples import Floats, importance
from support.encoders import GRIDS as NAMES
from support.encoders import decoded, encoded, samples_for
from support.kernels import KINDS
from support.trained_weights import trained

Array = NDArray[Any]
EVEN = ["IQ3_XXS", "IQ2_XS"]
"""Formats in which an even number of each eight weights is negative."""
GRIDS: dict[str, tuple[Grid, int, float]] = {"IQ3_S": (IQ3_S, 32, 1), "IQ3_XXS": (IQ3_XXS, 32, 0.25)}
GRIDS["IQ2_XS"] = IQ2_XS, 16, 0.125
SAMPLES = samples_for("IQ3_S")
IMPORTANCE = importance()
WEIGHTS = [
    (name, weights) for name in NAMES for weights in (None, IMPORTANCE) if name == "IQ3_S" or weights is not None
]
"""llama.cpp encodes IQ2_XS only with weights, and IQ3_XXS only for tests without."""


def llama_cpp_weights(name: str, rows: Floats, weights: Floats) -> NDArray[np.float64]:
    """What llama.cpp weights squared errors with (ggml-quants.c): weight · √(c · mean x² + x²), means of super-blocks,
    and c is 1 for IQ2, 2 for IQ3."""
    squares = rows.astype(np.float64).reshape(len(rows), -1, 256) ** 2
    means = squares.mean(-1, keepdims=True) * (1 if name.startswith("IQ2") else 2)
    return np.sqrt(squares + means).reshape(rows.shape) * weights


def errors(name: str, rows: Floats, data: Array, weights: Floats) -> tuple[float, float]:
    """The sums of squared errors with these weights, and with those of llama.cpp."""
    squares = (rows - decoded(name, data)) ** 2
    return float((squares * weights).sum()), float((squares * llama_cpp_weights(name, rows, weights)).sum())


def assert_no_worse(name: str, rows: Floats, weights: Floats | None) -> None:
    used = np.ones(rows.shape[1], np.float32) if weights is None else weights
    ours = errors(name, rows, encoded(name, rows, weights).data, used)
    theirs = errors(name, rows, llama_cpp_encode(name, rows, weights), used)
    assert ours[0] <= theirs[0]
    assert ours[1] <= theirs[1]


@pytest.mark.parametrize("what", ["Gaussian", "heavy tails", "one side", "all sizes"])
@pytest.mark.parametrize(("name", "weights"), WEIGHTS)
def test_errors_are_smaller_than_those_of_llama_cpp(name: str, weights: Floats | None, what: str) -> None:
    assert_no_worse(name, SAMPLES[what], weights)


@pytest.mark.parametrize(("name", "weights"), WEIGHTS)
def test_errors_of_a_trained_model_are_not_above_those_of_llama_cpp(
    name: str, weights: Floats | None, shared: Path
) -> None:
    matrices = trained(shared / "models/tale-13m/model.safetensors")
    assert len(matrices) > 20
    for _, matrix in matrices:
        rows = matrix[:: max(1, len(matrix) // 32)].copy()
        assert_no_worse(name, rows, None if weights is None else importance(rows.shape[1]))


@pytest.mark.parametrize("name", NAMES)
def test_no_point_is_much_better(name: str) -> None:
    """Of each block, at the scale it was given, against all points: what is left is the choice of the sign."""
    grid, n, unit = GRIDS[name]
    rows = SAMPLES["Gaussian"][:, :256]
    data = encoded(name, rows, IMPORTANCE[:256]).data
    found = decoded(name, data).reshape(-1, grid.weights)
    scale = np.repeat(scales(name, data) * unit, n // grid.weights)[:, None]
    points = np.array(grid.magnitudes, np.float64)
    assert {tuple(point) for point in np.rint(np.abs(found) / scale).astype(int).tolist()} <= set(grid.magnitudes)
    x = np.abs(rows).astype(np.float64).reshape(-1, grid.weights)
    mean = np.repeat((rows.astype(np.float64) ** 2).mean(1), 256 // grid.weights)[:, None]
    w = np.tile(np.maximum(IMPORTANCE[:256] / IMPORTANCE[:256].max(), 2.0**-20), len(rows)).reshape(x.shape)
    w = w * (1 + x**2 / mean) ** 0.25
    wrong = (np.sign(found) != np.sign(rows.reshape(x.shape))).any(1)
    best = (w[:, None] * (x[:, None] - scale[:, None] * points) ** 2).sum(2).min(1)
    ours = (w * (x - np.abs(found)) ** 2).sum(1)
    assert (wrong.mean() > 0.05) == (name in EVEN)
    assert (ours[~wrong] <= best[~wrong] * (1 + 1e-3)).all()


def scales(name: str, data: Array) -> NDArray[np.float64]:
    """d · (2 scale + 1) of all blocks, from the bytes as `kquants.formats` documents them."""
    blocks = data.reshape(-1, KINDS[name].nbytes)
    d = blocks[:, :2].copy().view(np.float16).astype(np.float64)
    if name == "IQ3_XXS":
        codes = blocks[:, 66:].copy().view(np.uint32) >> 28
    else:
        nibbles = blocks[:, {"IQ3_S": 106, "IQ2_XS": 66}[name] :]
        codes = np.stack([nibbles & 15, nibbles >> 4], 2).reshape(len(blocks), -1)
    return (d * (2 * codes.astype(np.float64) + 1)).reshape(-1)


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_fit_are_kept(name: str) -> None:
    """Weights that are points of the grid with signs, of blocks with scales from 1 to 31, have no error."""
    grid, n, unit = GRIDS[name]
    rng = np.random.default_rng(3)
    points = rng.choice(np.array(grid.magnitudes), 40 * 256 // grid.weights).reshape(-1, 8)
    signs = rng.choice([-1, 1], points.shape)
    if name in EVEN:
        signs[:, 7] = signs[:, :7].prod(1)
    steps = 2 * rng.integers(0, 16, 40 * 256 // n) + 1
    steps[:: 256 // n] = 31
    rows = (0.5 * unit * (points * signs).reshape(-1, n) * steps[:, None]).astype(np.float32).reshape(40, 256)
    found = decoded(name, encoded(name, rows).data)
    exact = (found == rows).all(1)
    assert exact.mean() > 0.6
    assert ((found - rows) ** 2).sum() < 1e-4 * (rows.astype(np.float64) ** 2).sum()


def test_a_sign_is_changed_where_it_costs_least() -> None:
    """Eight weights at one level, of which one is negative: it is another, small one that becomes so, too."""
    for name in EVEN:
        rows = np.full((1, 256), 0.5, np.float32)
        rows[0, 3::8] = -0.5
        rows[0, 6::8] = 1e-3
        found = decoded(name, encoded(name, rows).data)
        negative = np.zeros((32, 8), bool)
        negative[:, [3, 6]] = True
        assert np.array_equal(found.reshape(32, 8) < 0, negative)
        weights = np.ones(256, np.float32)
        weights[1::8] = 1e-6
        negative[:, [6, 1]] = False, True
        rows[0, 6::8] = 0.4
        assert np.array_equal(decoded(name, encoded(name, rows, weights).data).reshape(32, 8) < 0, negative)
