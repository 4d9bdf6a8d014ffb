"""Q4_1: w = d · q + m, q in 0 … 15; the layout is in `kquants.formats.q4_1`."""

from kquants.encoders.unsigned import define
from kquants.formats.q4_1 import BLOCK_BYTES

define("q4_1", BLOCK_BYTES, top=15, nibbles=4)
