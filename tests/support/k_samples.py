"""Rows of float32 that the encoders of super-blocks are tested with, and what those of k-quants make of them."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from kquants import jit
from kquants.encode import Encoded, encode, kernel_of
from support.kernels import KINDS, cache_folder

Floats = NDArray[np.float32]
K_QUANTS = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
NAMES = [*K_QUANTS, "IQ4_XS", "TQ2_0", "TQ1_0"]


def encoded(name: str, rows: Floats, importance: Floats | None = None) -> Encoded:
    return encode(KINDS[name], np.ascontiguousarray(rows), cache_folder(), importance)


def samples() -> dict[str, Floats]:
    rng = np.random.default_rng(5)
    shape = (16, 1024)
    rows = {
        "normal": rng.standard_normal(shape),
        "Student, 2 degrees": rng.standard_t(2, shape),
        "Student, 3 degrees": rng.standard_t(3, shape),
        "shifted": rng.standard_normal(shape) + 1.5,
        "lopsided": rng.exponential(size=shape),
        "rows of all sizes": rng.standard_normal(shape) * np.logspace(-3, 3, 16)[:, None],
    }
    return {what: (0.02 * r).astype(np.float32) for what, r in rows.items()}


SAMPLES = samples()


def digests() -> str:
    """What the encoders make of the samples, in short."""
    jit.load([kernel_of(KINDS[name]) for name in K_QUANTS], cache_folder())  # all at once, as they compile in parallel
    digest = hashlib.sha256()
    for rows in SAMPLES.values():
        for importance in (None, np.random.default_rng(6).random(rows.shape[1:], np.float32)):
            for name in K_QUANTS:
                digest.update(encoded(name, rows, importance).data.tobytes())
    return digest.hexdigest()
