"""Random matrices in the tensor types of GGUF: zero mean, a wanted standard deviation.

The gguf package encodes the plain types, Q8_0 and the older ones. It encodes no k-quants and IQ types, so their
blocks are drawn directly: uniform codes q under random scales, whose d is what gives the standard deviation.
"""

from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from support import gguf_types

Bytes = NDArray[np.uint8]
# (random numbers, rows, columns, standard deviation) -> the rows as they lie in a file
Encoder = Callable[[np.random.Generator, int, int, float], NDArray[Any]]


def _plain(kind: Type) -> Encoder:
    """An encoder of normal weights for a type that the gguf package can encode."""

    def encode(rng: np.random.Generator, rows: int, cols: int, std: float) -> NDArray[Any]:
        weights = (std * rng.standard_normal((rows, cols))).astype(np.float32)
        rows_as_stored: NDArray[Any] = gguf.quants.quantize(weights, kind)
        return rows_as_stored

    return encode


def _half(values: NDArray[np.float64]) -> Bytes:
    """float16 values as bytes, (n, 2) of (n, 1)."""
    return values.astype(np.float16).view(np.uint8)


def _codes(rng: np.random.Generator, n: int, nbytes: int) -> Bytes:
    return rng.integers(0, 256, (n, nbytes), dtype=np.uint8)


def _signed(rng: np.random.Generator, low: int, high: int, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Whole numbers of size low … high - 1 and either sign."""
    signed: NDArray[np.int64] = rng.integers(low, high, shape) * rng.choice([-1, 1], shape)
    return signed


def _q4_or_q5_k(code_bytes: int, largest: int) -> Encoder:
    """An encoder of Q4_K or Q5_K blocks: w = d * scale * q - dmin * min, q in 0..largest.

    A block of 256 is d, dmin (float16), 8 six-bit scales and mins in 12 bytes, then q. dmin = d * largest / 2 and
    mins near the scales put the mean near zero; q has variance ((largest + 1)**2 - 1) / 12.
    """

    def encode(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
        n = rows * cols // 256
        scale = rng.integers(24, 64, (n, 8), dtype=np.uint8)
        low = np.clip(scale + rng.integers(-3, 4, (n, 8)), 0, 63).astype(np.uint8)
        d = std / 45.1 / (((largest + 1) ** 2 - 1) / 12) ** 0.5 * rng.uniform(0.7, 1.3, (n, 1))
        packed = np.empty((n, 12), np.uint8)
        packed[:, 0:4] = scale[:, :4] | scale[:, 4:] >> 4 << 6
        packed[:, 4:8] = low[:, :4] | low[:, 4:] >> 4 << 6
        packed[:, 8:12] = scale[:, 4:] & 15 | (low[:, 4:] & 15) << 4
        head = np.hstack([_half(d), _half(largest / 2 * d)])
        return np.hstack([head, packed, _codes(rng, n, code_bytes)]).reshape(rows, -1)

    return encode


def _q2_k(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of Q2_K blocks: w = d * scale * q - dmin * min, q in 0..3 (mean 1.5, variance 1.25).

    A block of 256 is 16 bytes with a 4-bit scale (low) and min, 64 bytes of q, d, dmin (float16).
    """
    n = rows * cols // 256
    scale = rng.integers(6, 16, (n, 16), dtype=np.uint8)
    low = np.clip(scale + rng.integers(-1, 2, (n, 16)), 0, 15).astype(np.uint8)
    d = std / (10.9 * 1.25**0.5) * rng.uniform(0.7, 1.3, (n, 1))
    return np.hstack([scale | low << 4, _codes(rng, n, 64), _half(d), _half(1.5 * d)]).reshape(rows, -1)


def _q3_k(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of Q3_K blocks: w = d * (scale - 32) * (q - 4), q in 0..7 (mean square of q - 4 is 5.5).

    A block of 256 is 96 bytes of q, 16 six-bit scales in 12 bytes, d (float16).
    """
    n = rows * cols // 256
    scale = (_signed(rng, 8, 32, (n, 16)) + 32).astype(np.uint8)
    low = scale[:, :8] & 15 | (scale[:, 8:] & 15) << 4
    high = sum(scale[:, 4 * i : 4 * i + 4] >> 4 << 2 * i for i in range(4))
    d = std / (20.7 * 5.5**0.5) * rng.uniform(0.7, 1.3, (n, 1))
    return np.hstack([_codes(rng, n, 96), low, high, _half(d)]).reshape(rows, -1)


def _q6_k(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of Q6_K blocks: w = d * scale * (q - 32), q in 0..63 (variance (64**2 - 1) / 12).

    A block of 256 is 192 bytes of q, 16 signed scales, d (float16).
    """
    n = rows * cols // 256
    scale = _signed(rng, 32, 128, (n, 16)).astype(np.int8).view(np.uint8)
    d = std / (84.4 * 341.25**0.5) * rng.uniform(0.7, 1.3, (n, 1))
    return np.hstack([_codes(rng, n, 192), scale, _half(d)]).reshape(rows, -1)


def _iq4_nl(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of IQ4_NL blocks: w = d * value[q], the sixteen values have a mean square of 67.4**2.

    A block of 32 is d (float16), 16 bytes of q.
    """
    n = rows * cols // 32
    d = std / 67.4 * rng.uniform(0.7, 1.3, (n, 1)) * rng.choice([-1, 1], (n, 1))
    return np.hstack([_half(d), _codes(rng, n, 16)]).reshape(rows, -1)


def _iq4_xs(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of IQ4_XS blocks: w = d * (scale - 32) * value[q], with the values of IQ4_NL.

    A block of 256 is d (float16), 8 scales (2 bytes with their bits 5-4, 4 with bits 3-0), 128 bytes of q.
    """
    n = rows * cols // 256
    scale = (_signed(rng, 8, 32, (n, 8)) + 32).astype(np.uint16)
    high = sum(scale[:, i : i + 1] >> 4 << 2 * i for i in range(8))
    low = (scale[:, ::2] & 15 | (scale[:, 1::2] & 15) << 4).astype(np.uint8)
    d = std / (20.7 * 67.4) * rng.uniform(0.7, 1.3, (n, 1))
    packed = np.hstack([_half(d), np.asarray(high, np.uint16).view(np.uint8), low])
    return np.hstack([packed, _codes(rng, n, 128)]).reshape(rows, -1)


def _points(kind: Type) -> Encoder:
    """An encoder of points of a grid: w = d * (2 scale + 1) * points with signs, of which any bytes are some.

    A block of 256 begins with d (float16). What points and scales amount to is taken from some blocks with d = 1.
    """
    nbytes = gguf.GGML_QUANT_SIZES[kind][1]

    def encode(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
        n = rows * cols // 256
        blocks = np.hstack([_half(np.ones((n, 1))), _codes(rng, n, nbytes - 2)])
        scale = np.sqrt(np.mean(gguf.quants.dequantize(blocks[:64], kind) ** 2))
        blocks[:, :2] = _half(std / scale * rng.uniform(0.7, 1.3, (n, 1)))
        return blocks.reshape(rows, -1)

    return encode


def _q2_0(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of Q2_0 blocks: w = d * (q - 1). Each q has its share, so that the mean is 0 and the variance 0.8 d**2."""
    n = rows * cols // 64
    q = rng.choice(4, (n, 64), p=(0.35, 0.35, 0.25, 0.05))
    return np.hstack([_scale(rng, n, std / 0.8**0.5), _packed(q)]).reshape(rows, -1)


def _q1_0(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of Q1_0 blocks: w = d or -d."""
    n = rows * cols // 128
    return np.hstack([_scale(rng, n, std), _codes(rng, n, 16)]).reshape(rows, -1)


def _tq2_0(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of TQ2_0 blocks: w = d * (q - 1), here q in 0 ... 2, of variance 2/3."""
    n = rows * cols // 256
    q = rng.integers(0, 3, (n, 256))
    return np.hstack([_packed(q), _scale(rng, n, std * 1.5**0.5)]).reshape(rows, -1)


def _tq1_0(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of TQ1_0 blocks: w = d * (t - 1), of any five trits in a byte; those of variance 2/3."""
    n = rows * cols // 256
    q = -(-rng.integers(0, 243, (n, 52)) * 256 // 243)
    return np.hstack([q.astype(np.uint8), _scale(rng, n, std * 1.5**0.5)]).reshape(rows, -1)


def _iq1_m(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of IQ1_M blocks: any bytes, but for d (float16) in the highest bits of the last four 16 bits."""
    n = rows * cols // 256
    codes, d = _codes(rng, n, 56), np.ones((n, 1))

    def with_d(size: NDArray[np.float64]) -> Bytes:
        tops = _half(size).view("<u2") >> np.array([0, 4, 8, 12], "<u2") << 12
        return np.hstack([codes[:, :48], (codes[:, 48:].copy().view("<u2") & 0xFFF | tops).view(np.uint8)])

    scale = np.sqrt(np.mean(gguf.quants.dequantize(with_d(d)[:64], Type.IQ1_M) ** 2))
    return with_d(std / scale * rng.uniform(0.7, 1.3, (n, 1))).reshape(rows, -1)


def _scale(rng: np.random.Generator, n: int, size: float) -> Bytes:
    """Positive float16 near `size`."""
    return _half(size * rng.uniform(0.7, 1.3, (n, 1)))


def _packed(q: NDArray[np.int64]) -> Bytes:
    """Four q of two bits in a byte, the first in its lowest bits; (n, count / 4) of (n, count)."""
    return np.asarray((q.reshape(len(q), -1, 4) << np.array([0, 2, 4, 6])).sum(2), np.uint8)


def _nvfp4(rng: np.random.Generator, rows: int, cols: int, std: float) -> Bytes:
    """Rows of NVFP4 blocks: w = d * q, the sixteen q have a mean square of 8.56.

    A block of 64 is 4 scales (UE4M3), 32 bytes of q.
    """
    n = rows * cols // 64
    d = std / 8.56**0.5 * rng.uniform(0.7, 1.3, (n, 4))
    return np.hstack([gguf.quants.NVFP4.fp32_to_ue4m3(d.astype(np.float32)), _codes(rng, n, 32)]).reshape(rows, -1)


def _zeros(kind: Type) -> Encoder:
    """Blocks of zero bytes: for types that nothing here computes with."""
    block, nbytes = gguf.GGML_QUANT_SIZES[kind]
    return lambda rng, rows, cols, std: np.zeros((rows, cols // block * nbytes), np.uint8)


gguf_types.register()
_PLAIN = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4")
ENCODERS: dict[Type, Encoder] = {kind: _zeros(kind) for kind in Type}
ENCODERS |= {Type[name]: _plain(Type[name]) for name in _PLAIN}
ENCODERS |= {Type.Q4_K: _q4_or_q5_k(128, 15), Type.Q5_K: _q4_or_q5_k(160, 31)}
ENCODERS |= {Type.Q2_K: _q2_k, Type.Q3_K: _q3_k, Type.Q6_K: _q6_k, Type.IQ4_NL: _iq4_nl, Type.IQ4_XS: _iq4_xs}
ENCODERS |= {Type[name]: _points(Type[name]) for name in ("IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_S")}
ENCODERS |= {Type["Q2_0"]: _q2_0, Type.Q1_0: _q1_0, Type.TQ2_0: _tq2_0, Type.TQ1_0: _tq1_0, Type.IQ1_M: _iq1_m}
ENCODERS |= {Type.NVFP4: _nvfp4}
