"""Encoders give the same bytes on lesser CPUs: those of k-quants are in test_encoders_k."""

import hashlib

import numpy as np
import pytest
from encoder_samples import importance, samples
from kernels import KINDS, cache_folder
from test_kquants_cpus import LESSER, python_on_lesser

from kquants.encode import encode

# One of each kind: what compiles is most of the time. Q5_1 has a minimum and fifth bits, IQ4_NL a table.
NAMES = ["F16", "BF16", "Q8_0", "Q5_1", "IQ4_NL"]

pytestmark = pytest.mark.timeout(600)  # each process compiles for a CPU of its own


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


@pytest.mark.parametrize("lowering", LESSER)
def test_the_bytes_are_those_of_this_cpu(lowering: str) -> None:
    code = "import test_encoders_cpus as t; print(*map(t.digest, t.NAMES))"
    assert python_on_lesser(lowering, code).split() == [digest(name) for name in NAMES]
