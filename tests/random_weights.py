"""Random matrices in the tensor types of GGUF: zero mean, a wanted standard deviation.

The gguf package encodes the plain types and Q8_0. It encodes no k-quants, so their blocks are drawn directly.
"""

from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
# (random numbers, rows, columns, standard deviation) -> the rows as they lie in a file
Encoder = Callable[[np.random.Generator, int, int, float], NDArray[Any]]


def _plain(kind: Type) -> Encoder:
    """An encoder of normal weights for a type that the gguf package can encode."""

    def encode(rng: np.random.Generator, rows: int, cols: int, std: float) -> NDArray[Any]:
        weights = (std * rng.standard_normal((rows, cols))).astype(np.float32)
        return gguf.quants.quantize(weights, kind)

    return encode


def _q4_k(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of random Q4_K blocks, (rows, bytes per row): w = d * scale * q - dmin * min, q uniform in 0..15.

    A block of 256 is d, dmin (float16), 8 six-bit scales and mins in 12 bytes, 128 bytes of q. dmin = 7.5 d
    and mins near the scales put the mean near zero; q has variance (16**2 - 1) / 12.
    """
    n = rows * cols // 256
    scale = rng.integers(24, 64, (n, 8), dtype=np.uint8)
    low = np.clip(scale + rng.integers(-3, 4, (n, 8)), 0, 63).astype(np.uint8)
    d = std / (45.1 * 21.25**0.5) * rng.uniform(0.7, 1.3, (n, 1))
    packed = np.empty((n, 12), np.uint8)
    packed[:, 0:4] = scale[:, :4] | scale[:, 4:] >> 4 << 6
    packed[:, 4:8] = low[:, :4] | low[:, 4:] >> 4 << 6
    packed[:, 8:12] = scale[:, 4:] & 15 | (low[:, 4:] & 15) << 4
    codes = rng.integers(0, 256, (n, 128), dtype=np.uint8)
    head = np.hstack([d, 7.5 * d]).astype(np.float16).view(np.uint8)
    return np.hstack([head, packed, codes]).reshape(rows, -1)


def _q6_k(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of random Q6_K blocks, (rows, bytes per row): w = d * scale * (q - 32), q uniform in 0..63.

    A block of 256 is 192 bytes of q, 16 signed scales, d (float16). q has variance (64**2 - 1) / 12.
    """
    n = rows * cols // 256
    scale = rng.integers(32, 128, (n, 16)) * rng.choice([-1, 1], (n, 16))
    d = std / (84.4 * 341.25**0.5) * rng.uniform(0.7, 1.3, (n, 1))
    codes = rng.integers(0, 256, (n, 192), dtype=np.uint8)
    tail = d.astype(np.float16).view(np.uint8)
    return np.hstack([codes, scale.astype(np.int8).view(np.uint8), tail]).reshape(rows, -1)


ENCODERS: dict[Type, Encoder] = {kind: _plain(kind) for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0)}
ENCODERS |= {Type.Q4_K: _q4_k, Type.Q6_K: _q6_k}
