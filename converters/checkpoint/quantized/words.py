"""Integers of a few bits, packed into 32-bit words.

The first integer is in the lowest bits of a word. Where the bits do not divide 32, integers go on in the next word:

    bits   32 integers of 3 bits in 3 words
    0 … 2  3 … 5  …  27 … 29  30 … 32   33 … 35  …
    0      1         9        10        11             number 10 is in bits 30 and 31 of word 0, and bit 0 of word 1
"""

import numpy as np
from numpy.typing import NDArray

BITS = (2, 3, 4, 8)
"""The widths that can be unpacked."""


def unpacked(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint8]:
    """The integers of `bits` in words [..., n], which must be a multiple of 3 for 3 bits: uint8 [..., 32 n / bits]."""
    whole, width = (_words_of_24_bits(words), 24) if bits == 3 else (words, 32)
    shifts = np.arange(0, width, bits).astype(np.uint32)
    found: NDArray[np.uint8] = (whole[..., None] >> shifts & np.uint32((1 << bits) - 1)).astype(np.uint8)
    return found.reshape(*words.shape[:-1], -1)


def word_count(integers: int, bits: int) -> int:
    """The number of words for `integers` integers of `bits` bits; the last word may be part full."""
    each, words = (32, 3) if bits == 3 else (32 // bits, 1)
    return -(-integers // each) * words


def _words_of_24_bits(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The bits of words [..., 3 n] as words of 24 bits, [..., 4 n]."""
    data = np.ascontiguousarray(words).view(np.uint8).astype(np.uint32).reshape(*words.shape[:-1], -1, 3)
    found: NDArray[np.uint32] = data[..., 0] | data[..., 1] << np.uint32(8) | data[..., 2] << np.uint32(16)
    return found
