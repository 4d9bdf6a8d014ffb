"""Q5_0: w = d · v, v in -16 … 15; the layout is in `kquants.formats.q5_0`."""

from kquants.encoders.signed import define
from kquants.formats.q5_0 import BLOCK_BYTES

define("q5_0", BLOCK_BYTES, lowest=-16, nibbles=6, high_bits=2)
