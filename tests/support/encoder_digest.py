"""What encoders of floats and of blocks of 32 weights make of all samples, in short."""

import hashlib

import numpy as np

from kquants.encode import encode
from support.encoder_samples import importance, samples
from support.kernels import KINDS, cache_folder


def digest(name: str) -> str:
    """A hash of what a format makes of all samples, and of what it reports."""
    found = hashlib.sha256()
    for values in samples().values():
        if name == "F16":
            values = values.clip(-65000, 65000)
        for weights in (None, importance()):
            data, error, squares = encode(KINDS[name], values, cache_folder(), weights)
            found.update(data.tobytes() + np.array([error, squares]).tobytes())
    return found.hexdigest()
