"""TQ1_0; its layout is in `kquants.formats.tq1_0`."""

from kquants.compiler.decorators import inline
from kquants.encoders import super_blocks
from kquants.encoders.lane_ops import store_u8
from kquants.encoders.ternary import LARGEST, ternary_search
from kquants.formats.tq1_0 import BLOCK_BYTES
from kquants.simd import copy, load_u8


@inline
def _pack_trits(codes: int, trits: int, nbytes: int, target: int) -> None:
    """Pack `trits` trits in each of `nbytes` bytes: trit n of byte k is code n · nbytes + k.

    As a number of five trits, the first of which counts most, a byte is t · 256 / 243, rounded up.
    """
    for k in range(nbytes):
        number = 0
        for n in range(trits):
            number = 3 * number + load_u8(codes + nbytes * n + k)
        if trits == 4:
            number *= 3
        store_u8(target + k, (256 * number + 242) // 243)


@inline
def _pack(codes: int, scales: int, minima: int, d: int, dmin: int, target: int) -> None:
    _pack_trits(codes, 5, 32, target)
    _pack_trits(codes + 160, 5, 16, target + 32)
    _pack_trits(codes + 240, 4, 4, target + 48)
    copy(target + 52, d, 2)


super_blocks.define("tq1_0", BLOCK_BYTES, LARGEST, 16, ternary_search, _pack)
