"""Rows of float32 that encoders are tested with."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def samples(columns: int = 1024, rows: int = 24) -> dict[str, Floats]:
    """Rows of several distributions, by name, (rows, columns)."""
    rng = np.random.default_rng(11)
    shape = (rows, columns)
    drawn = {
        "Gaussian": rng.standard_normal(shape),
        "heavy tails": rng.standard_t(3, shape),
        "very heavy tails": rng.standard_cauchy(shape).clip(-1e4, 1e4),
        "one side": np.abs(rng.standard_normal(shape)),
        "around 1": 1 + 0.1 * rng.standard_normal(shape),
        "sparse": rng.standard_normal(shape) * (rng.random(shape) < 0.1),
        "all sizes": rng.standard_normal(shape) * 10.0 ** rng.uniform(-9, 4, (rows, 1)),
    }
    return {name: values.astype(np.float32) for name, values in drawn.items()}


def importance(columns: int = 1024) -> Floats:
    """Weights of columns over some orders of magnitude, a few of them 0."""
    rng = np.random.default_rng(12)
    weights = rng.lognormal(0, 1, columns) * (rng.random(columns) > 0.05)
    return weights.astype(np.float32)
