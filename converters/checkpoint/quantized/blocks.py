"""Blocks of GGUF that hold grouped integers exactly: the integers of a matrix and its scales, in another order.

Of a weight scale · n, Q4_0 holds n from -8 to 7, Q5_0 n from -16 to 15, and Q8_0 n from -128 to 127, with a float16
scale for 32 weights:

    Q4_0   d F16 | 16 bytes: n + 8 of weight i in the low half of byte i, that of weight i + 16 in the high half
    Q5_0   d F16 | U32: bit 4 of n + 16 of weight i in bit i | 16 bytes: bits 0 … 3, as in Q4_0
    Q8_0   d F16 | 32 bytes: n

Source: `block_q4_0`, `block_q5_0` and `block_q8_0` of ggml/src/ggml-common.h.
"""

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Weights in a block."""

OFFSETS = {"Q4_0": 8, "Q5_0": 16}
"""What is added to the integers of a type, which are less than twice that then."""

RANGES = {**OFFSETS, "Q8_0": 128}
"""The integers of a type are those from the negative of this up to one less than this."""


def encoded(integers: NDArray[np.int8], scales: NDArray[np.float32], kind: str) -> NDArray[np.uint8]:
    """Blocks of the type `kind` from integers [rows, columns] and scales [rows, columns / 32]: uint8 [rows, bytes].

    The integers must be in the range of the type, and the scales numbers of float16.
    """
    bytes_of_scales = scales.astype("<f2")[..., None].view(np.uint8)
    if kind == "Q8_0":
        whole = integers.view(np.uint8).reshape(*scales.shape, BLOCK)
        return np.concatenate([bytes_of_scales, whole], axis=-1).reshape(len(integers), -1)
    codes = (integers + np.int8(OFFSETS[kind])).view(np.uint8).reshape(*scales.shape, BLOCK)
    low, high = codes[..., : BLOCK // 2] & 15, codes[..., BLOCK // 2 :] & 15
    parts = [bytes_of_scales, low | high << 4]
    if kind == "Q5_0":
        parts.insert(1, np.packbits(codes >> 4, axis=-1, bitorder="little"))
    return np.concatenate(parts, axis=-1).reshape(len(integers), -1)
