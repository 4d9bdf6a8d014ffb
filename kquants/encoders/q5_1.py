"""Q5_1: w = d · q + m, q in 0 … 31; the layout is in `kquants.formats.q5_1`."""

from kquants.encoders.unsigned import define
from kquants.formats.q5_1 import BLOCK_BYTES

define("q5_1", BLOCK_BYTES, top=31, nibbles=8, high_bits=4)
