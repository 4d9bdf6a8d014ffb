"""Encoders give the same bytes on lesser CPUs."""

import pytest

from support.cpus import LESSER, python_on_lesser
from support.encoder_digest import digests

KINDS = {
    "floats": ["F16", "BF16"],
    "blocks": ["Q8_0", "Q5_1", "IQ4_NL", "NVFP4"],
    "super-blocks": ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "TQ1_0"],
    "grids": ["IQ3_XXS", "IQ2_XS"],
}
"""Some of each kind: what compiles is most of the time. Q5_1 has a minimum and fifth bits, IQ4_NL a table, NVFP4 scales
of 8 bits; both grids have signs of even parity."""

pytestmark = [pytest.mark.cpus, pytest.mark.timeout(1800)]  # each process compiles for a CPU of its own


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lowering", LESSER)
def test_the_bytes_are_those_of_this_cpu(lowering: str, kind: str) -> None:
    code = "import sys; from support.encoder_digest import digests; print(*digests(sys.argv[1:]))"
    assert python_on_lesser(lowering, code, *KINDS[kind]).split() == digests(KINDS[kind])
