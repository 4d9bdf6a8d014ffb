"""BF16: a row is the upper halves of its float32 values, little-endian.

bit  15  14 … 7   6 … 0
     sign exponent mantissa        a float32 whose low 16 bits are zero
"""

from kquants.simd import load_bf16x16 as lanes
from kquants.simd import load_bf16x16_part as lanes_part

__all__ = ["WEIGHT_BYTES", "lanes", "lanes_part"]

WEIGHT_BYTES = 2
