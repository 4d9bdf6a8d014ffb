"""Logits of `transformers` far into long sequences, for the fixtures of shared/archs whose layers have states.

`python -m support.make_family_references --long SHARED` writes them.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LONG_RUNS = Path(__file__).with_name("golden") / "archs_long_runs.npz"

LENGTH = 2000
LONG_IDS: list[int] = np.random.default_rng(11).integers(3, 300, LENGTH).tolist()
"""The ids of all runs."""

LONG_POSITIONS = [63, 255, 511, 1023, 1535, LENGTH - 1]
"""The positions whose logits are stored."""


def long_logits(name: str) -> NDArray[np.float32]:
    """The logits at LONG_POSITIONS of LONG_IDS for a fixture, computed in float64: (6, vocabulary)."""
    with np.load(LONG_RUNS) as file:
        logits: NDArray[np.float32] = file[name]
        return logits
