"""What encoders make of all samples, in short."""

import hashlib
from collections.abc import Sequence

import numpy as np

from kquants import jit
from kquants.encode import kernel_of
from support.encoder_samples import importance
from support.encoders import encoded, samples_for
from support.kernels import KINDS, cache_folder


def digests(names: Sequence[str]) -> list[str]:
    """For each format, a hash of what it makes of all samples, and of what it reports."""
    jit.load([kernel_of(KINDS[name]) for name in names], cache_folder())  # all at once, as they compile in parallel
    return [_digest(name) for name in names]


def _digest(name: str) -> str:
    found = hashlib.sha256()
    for rows in samples_for(name).values():
        for weights in (None, importance()):
            data, error, squares = encoded(name, rows, weights)
            found.update(data.tobytes() + np.array([error, squares]).tobytes())
    return found.hexdigest()
