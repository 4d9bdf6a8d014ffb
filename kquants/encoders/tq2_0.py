"""TQ2_0; its layout is in `kquants.formats.tq2_0`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.q2_k import pack_2_bits
from kquants.encoders.ternary import LARGEST, ternary_search
from kquants.formats.tq2_0 import BLOCK_BYTES
from kquants.simd import copy


@inline
def _pack(codes: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    pack_2_bits(codes, target)
    copy(target + 64, d, 2)


super_blocks.define("tq2_0", BLOCK_BYTES, LARGEST, 16, ternary_search, _pack)
