"""Encoders give the same bytes on lesser CPUs: those of k-quants are in test_encoders_k."""

import pytest

from support.cpus import LESSER, python_on_lesser
from support.encoder_digest import digests

# One of each kind: what compiles is most of the time. Q5_1 has a minimum and fifth bits, IQ4_NL a table,
# NVFP4 scales of 8 bits.
NAMES = ["F16", "BF16", "Q8_0", "Q5_1", "IQ4_NL", "NVFP4"]

pytestmark = [pytest.mark.cpus, pytest.mark.timeout(600)]  # each process compiles for a CPU of its own


@pytest.mark.parametrize("lowering", LESSER)
def test_the_bytes_are_those_of_this_cpu(lowering: str) -> None:
    code = "import sys; from support.encoder_digest import digests; print(*digests(sys.argv[1:]))"
    assert python_on_lesser(lowering, code, *NAMES).split() == digests(NAMES)
