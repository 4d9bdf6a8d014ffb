"""What encoders of floats and of blocks of 32 weights make of all samples, in short."""

import hashlib
from collections.abc import Sequence

import numpy as np

from kquants import jit
from kquants.encode import encode, kernel_of
from support.encoder_samples import importance, samples
from support.kernels import KINDS, cache_folder

_LARGEST = {"F16": 65000, "NVFP4": 2688}


def digests(names: Sequence[str]) -> list[str]:
    """For each format, a hash of what it makes of all samples, and of what it reports."""
    jit.load([kernel_of(KINDS[name]) for name in names], cache_folder())  # all at once, as they compile in parallel
    return [_digest(name) for name in names]


def _digest(name: str) -> str:
    found = hashlib.sha256()
    for values in samples().values():
        values = values.clip(-_LARGEST.get(name, np.inf), _LARGEST.get(name, np.inf))
        for weights in (None, importance()):
            data, error, squares = encode(KINDS[name], values, cache_folder(), weights)
            found.update(data.tobytes() + np.array([error, squares]).tobytes())
    return found.hexdigest()
