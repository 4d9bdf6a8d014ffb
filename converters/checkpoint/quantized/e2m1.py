"""Floats of 4 bits, E2M1: the weights of MXFP4 and NVFP4.

Format: "OCP Microscaling Formats (MX)" 1.0, section 5.3.3. Bit 3 is the sign of 0, 0.5, 1, 1.5, 2, 3, 4, 6. A
checkpoint holds weights 2 i and 2 i + 1 in the low and the high half of byte i. GGUF holds those of a block of `n` so
that weight i is in the low half of byte i, and weight i + n / 2 in its high half.
"""

import numpy as np
from numpy.typing import NDArray

_MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_VALUES = np.concatenate([_MAGNITUDES, -_MAGNITUDES])


def e2m1_floats(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The weights in bytes [rows, n] of a checkpoint, float32 [rows, 2 n]."""
    return np.take(_VALUES, np.stack([data & 0x0F, data >> 4], axis=-1).reshape(len(data), -1))


def halves_apart(blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Blocks [..., n / 2] of a checkpoint in the order of GGUF."""
    half, low, high = blocks.shape[-1] // 2, blocks & 0x0F, blocks >> 4
    found = np.empty_like(blocks)
    found[..., ::2] = low[..., :half] | low[..., half:] << 4
    found[..., 1::2] = high[..., :half] | high[..., half:] << 4
    return found
