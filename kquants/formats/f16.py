"""F16: a row is its IEEE half-precision values, little-endian.

bit  15  14 … 10  9 … 0
     sign exponent mantissa        (-1)^s · 2^(e-15) · 1.m
"""

from kquants.simd import load_f16x16 as lanes
from kquants.simd import load_f16x16_part as lanes_part

__all__ = ["WEIGHT_BYTES", "lanes", "lanes_part"]

WEIGHT_BYTES = 2
