"""The encoders of weights in four-bit floats (MXFP4, NVFP4) against every scale."""

import numpy as np
import pytest
from numpy.typing import NDArray

from support.encoder_samples import Floats, importance
from support.encoders import decoded, encoded, samples_for
from support.kernels import KINDS, random_blocks

Bytes = NDArray[np.uint8]

NAMES = ["MXFP4", "NVFP4"]
SPAN = {"MXFP4": 32, "NVFP4": 16}
"""Weights under a scale."""
SCALES = {
    "MXFP4": 2.0 ** np.arange(-40, 41),
    "NVFP4": np.array([(8 + c % 8) * 2.0 ** (c // 8 - 10) if c > 7 else c * 2.0**-9 for c in range(1, 127)]),
}
"""Every scale: of MXFP4 those that samples may need, of NVFP4 UE4M3 without NaN."""
LEVELS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])

SAMPLES = samples_for("NVFP4")
IMPORTANCE = importance()


def errors(name: str, rows: Floats, data: Bytes, weights: Floats | None = None) -> NDArray[np.float64]:
    """The weighted squared error under each scale."""
    squares = (rows - decoded(name, data)) ** 2 * (1 if weights is None else weights)
    return squares.reshape(-1, SPAN[name]).sum(1)


def least_errors(name: str, rows: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
    """The least weighted squared error that any scale gives."""
    x = np.abs(rows.astype(np.float64)).reshape(-1, SPAN[name])
    w = np.broadcast_to(np.float64(1) if weights is None else weights.astype(np.float64), rows.shape).reshape(x.shape)
    best = (w * x**2).sum(1)
    for d in SCALES[name]:
        level = LEVELS[np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, x / d)]
        best = np.minimum(best, (w * (x - d * level) ** 2).sum(1))
    return best


@pytest.mark.parametrize("what", SAMPLES)
@pytest.mark.parametrize("name", NAMES)
def test_no_scale_is_better(name: str, what: str) -> None:
    """But for some blocks of NVFP4 with a single weight, which a much higher scale may hold as a lower level."""
    rows = SAMPLES[what]
    found, least = errors(name, rows, encoded(name, rows).data), least_errors(name, rows)
    assert (found <= 1.0001 * least + 1e-30).mean() >= (0.995 if what == "sparse" else 1)
    assert found.sum() <= 1.0001 * least.sum()


@pytest.mark.parametrize("what", ["Gaussian", "heavy tails", "one side"])
@pytest.mark.parametrize("name", NAMES)
def test_hardly_a_scale_is_better_where_columns_have_an_importance(name: str, what: str) -> None:
    """Only if the largest weights hardly matter, lower scales may be better than those that are tried."""
    rows = SAMPLES[what]
    found = errors(name, rows, encoded(name, rows, IMPORTANCE).data, IMPORTANCE).sum()
    assert found <= 1.002 * least_errors(name, rows, IMPORTANCE).sum()


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_the_format_can_hold_stay_as_they_are(name: str) -> None:
    """Also those that were encoded otherwise, by scales that are not the least."""
    data = random_blocks(np.random.default_rng(3), KINDS[name], 4096)
    if name == "MXFP4":
        data[:, 0] = 60 + data[:, 0] % 128
    else:
        data[:, :4] &= 0x7F
        data[:, :4][data[:, :4] == 0x7F] = 1
    weights = decoded(name, data).astype(np.float32)
    result = encoded(name, weights)
    assert np.array_equal(decoded(name, result.data), weights)
    assert result.error == 0
