"""F32: a row is its float32 values, little-endian.

byte  0    4    8
      [ x0 | x1 | x2 | …
"""

from kquants.simd import load_f32x16 as lanes
from kquants.simd import load_f32x16_part as lanes_part

__all__ = ["WEIGHT_BYTES", "lanes", "lanes_part"]

WEIGHT_BYTES = 4
