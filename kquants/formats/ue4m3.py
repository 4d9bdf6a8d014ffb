"""UE4M3: floats of 8 bits without a sign, the scales of NVFP4 (ggml: ggml_ue4m3_to_fp32)."""

from math import ldexp
from struct import pack

NAN = 0x7F
"""What is NaN in FP8 E4M3 (arXiv 2209.05433); ggml computes with 0."""


def half(code: int) -> float:
    """Half of a float of seven bits: four of exponent, three of fraction. That of NAN is 240, as its bits have it."""
    exponent, fraction = divmod(code, 8)
    return ldexp(8 + fraction, exponent - 11) if exponent else ldexp(fraction, -10)


_FLOATS = [pack("<f", half(code)) for code in range(128)]

HALVES = tuple(tuple(float32[byte] for float32 in _FLOATS) for byte in (2, 3))
"""The upper two bytes of half of each, as float32, a table for each; the lower two are 0."""
