"""Encoders of super-blocks: ternary weights stay as they are, and no weight is far from what it was.

For the formats of grids see test_encoders_grid, for what all encoders have in common test_encoders_alike.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.encoders import LARGEST, TERNARY, decoded, encoded

LEVELS = {"Q2_K": 4, "Q3_K": 8, "Q4_K": 16, "Q5_K": 32, "Q6_K": 64, "IQ4_XS": 11} | dict.fromkeys(TERNARY, 3)


@pytest.mark.parametrize("name", TERNARY)
def test_ternary_weights_stay_as_they_are(name: str) -> None:
    rng = np.random.default_rng(10)
    scales = rng.lognormal(-4, 2, (64, 1, 1)).astype(np.float16).astype(np.float32)
    rows = (rng.choice([-1, 0, 1], (64, 3, 256), p=[0.1, 0.8, 0.1]) * scales).astype(np.float32).reshape(64, 768)
    rows[0] = 0
    rows[1, :-1] = 0
    for importance in (None, rng.lognormal(0, 2, 768).astype(np.float32)):
        assert np.array_equal(decoded(name, encoded(name, rows, importance).data), rows)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([*LEVELS]), st.integers(0, 2**32), st.floats(-11, 0), st.integers(1, 256))
def test_no_weight_is_far_from_what_it_was(name: str, seed: int, power: float, nonzero: int) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.uniform(-1, 1, (3, 256)) * LARGEST[name] * 10**power).astype(np.float32)
    rows[:, nonzero:] = 0
    weights = decoded(name, encoded(name, rows).data)
    assert np.abs(weights - rows).max() <= 1.01 * np.ptp(rows) / (LEVELS[name] - 1) + 2.0**-23
