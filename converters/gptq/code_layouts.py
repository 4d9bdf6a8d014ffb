"""Where the codes of weights lie in the blocks of each format, and which values they stand for.

In all formats here a weight is `a · level[code] + c`, with a and c of its block's scales. The values that a block
decodes to with all codes 0, and with all codes as large as they get, then tell a and c; no scale is read here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kquants.dequantize import dequantize
from kquants.ggml import NAMED_TYPES, GGMLType

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Indices = NDArray[np.intp]


class _Bits(NamedTuple):
    """`width` bits of each code, from bit `first` of it on: at `shift` of byte `byte` of the block, for each weight."""

    byte: Indices
    shift: Indices
    width: int
    first: int


class Levels(NamedTuple):
    """The values of weights: `scale · level + shift`, both float32 [blocks, block]."""

    scale: Floats
    shift: Floats


@dataclass(frozen=True)
class CodeLayout:
    """The codes 0 … `len(levels)` - 1 of a type, with ascending `levels`; the block holds `code + offset` mod 256."""

    type: GGMLType
    bits: tuple[_Bits, ...]
    levels: Floats
    offset: int = 0

    def pack(self, blocks: Bytes, codes: Bytes) -> Bytes:
        """A copy of blocks, uint8 [blocks, bytes], with other codes, uint8 [blocks, block]; scales stay as they are."""
        packed, stored = blocks.copy(), codes + np.uint8(self.offset)
        for byte, shift, width, first in self.bits:
            mask = (1 << width) - 1
            for at in np.unique(shift):
                of = np.flatnonzero(shift == at)  # codes at the same place of different bytes
                part = stored[:, of] >> np.uint8(first) & np.uint8(mask)
                packed[:, byte[of]] = packed[:, byte[of]] & np.uint8(255 ^ mask << at) | part << np.uint8(at)
        return packed

    def values(self, blocks: Bytes, folder: Path) -> Levels:
        """What codes of these blocks stand for; `folder` is the cache of compiled kernels."""
        codes = np.zeros((len(blocks), self.type.block), np.uint8)
        lowest, highest = (self._decoded(self.pack(blocks, codes + np.uint8(code)), folder) for code in self._ends)
        first, last = self.levels[0], self.levels[-1]
        scale = (highest - lowest) / (last - first)
        return Levels(scale, lowest - scale * first)

    @property
    def _ends(self) -> tuple[int, int]:
        return 0, len(self.levels) - 1

    def _decoded(self, blocks: Bytes, folder: Path) -> Floats:
        return dequantize(self.type, blocks.reshape(-1), folder).reshape(len(blocks), -1)


def _nibbles(start: int, block: int, run: int) -> _Bits:
    """Four bits of each code: of 2 · `run` weights, the first half has the low bits of `run` bytes."""
    k = np.arange(block)
    return _Bits(start + k // (2 * run) * run + k % run, k % (2 * run) // run * 4, 4, 0)


def _pairs(start: int, first: int) -> _Bits:
    """Two bits of each of 256 codes: of 128 weights, each 32 have two bits of 32 bytes."""
    k = np.arange(256)
    return _Bits(start + k // 128 * 32 + k % 32, k % 128 // 32 * 2, 2, first)


def _top_bits(start: int, first: int) -> _Bits:
    """A bit of each of 256 codes: each 32 weights have a bit of 32 bytes."""
    k = np.arange(256)
    return _Bits(start + k % 32, k // 32, 1, first)


def _fifth_bits(start: int) -> _Bits:
    """The top bit of each of 32 codes, in four bytes."""
    k = np.arange(32)
    return _Bits(start + k // 8, k % 8, 1, 4)


def _whole(start: int) -> _Bits:
    k = np.arange(32)
    return _Bits(start + k, 0 * k, 8, 0)


def _layout(name: str, *bits: _Bits, levels: int = 0, offset: int = 0) -> CodeLayout:
    count = levels or 1 << sum(each.width for each in bits)
    return CodeLayout(NAMED_TYPES[name], bits, np.arange(count, dtype=np.float32), offset)


_IQ4_NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
"""ggml: kvalues_iq4nl."""

CODE_LAYOUTS = {
    layout.type.name: layout
    for layout in (
        _layout("Q2_K", _pairs(16, 0)),
        _layout("Q3_K", _pairs(32, 0), _top_bits(0, 2)),
        _layout("Q4_K", _nibbles(16, 256, 32)),
        _layout("Q5_K", _nibbles(48, 256, 32), _top_bits(16, 4)),
        _layout("Q6_K", _nibbles(0, 256, 64), _pairs(128, 4)),
        _layout("Q4_0", _nibbles(2, 32, 16)),
        _layout("Q4_1", _nibbles(4, 32, 16)),
        _layout("Q5_0", _nibbles(6, 32, 16), _fifth_bits(2)),
        _layout("Q5_1", _nibbles(8, 32, 16), _fifth_bits(4)),
        _layout("Q8_0", _whole(2), levels=255, offset=129),  # -127 … 127
        CodeLayout(NAMED_TYPES["IQ4_NL"], (_nibbles(2, 32, 16),), _IQ4_NL),
        CodeLayout(NAMED_TYPES["IQ4_XS"], (_nibbles(8, 256, 16),), _IQ4_NL),
    )
}
"""By the name of the type; the layouts are those of `kquants.formats`."""
