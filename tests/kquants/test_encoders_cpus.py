"""Encoders give the same bytes on lesser CPUs."""

import pytest

from kquants import ENCODED_FORMATS
from support.cpus import python_on_lesser
from support.encoder_digest import digests

SOME = ("F16", "Q8_0", "IQ4_NL", "Q4_K", "Q6_K", "IQ2_XS")
"""Of floats, blocks, super-blocks and grids; IQ4_NL has a table."""
MORE = ("BF16", "Q5_1", "NVFP4", "Q2_K", "TQ1_0")
"""Q5_1 has a minimum and fifth bits, NVFP4 scales of 8 bits. They are encoded on the CPU that rounds most often: it has
no fused products."""

FORMATS = {"SSSE3": (*SOME, *MORE), "AVX2": SOME}
"""Some of each kind: what compiles is most of the time, and with `exhaustive` it does so for all."""

pytestmark = [pytest.mark.cpus, pytest.mark.timeout(1800)]  # each process compiles for a CPU of its own


@pytest.mark.parametrize(
    ("lowering", "formats"),
    [*FORMATS.items(), *(pytest.param(name, ENCODED_FORMATS, marks=pytest.mark.exhaustive) for name in FORMATS)],
)
def test_the_bytes_are_those_of_this_cpu(lowering: str, formats: tuple[str, ...]) -> None:
    code = "import sys; from support.encoder_digest import digests; print(*digests(sys.argv[1:]))"
    assert python_on_lesser(lowering, code, *formats).split() == digests(formats)
