"""Q4_0: w = d · v, v in -8 … 7; the layout is in `kquants.formats.q4_0`."""

from kquants.encoders.signed import define
from kquants.formats.q4_0 import BLOCK_BYTES

define("q4_0", BLOCK_BYTES, lowest=-8, nibbles=2)
