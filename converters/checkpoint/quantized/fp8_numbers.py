"""Decoding scaled FP8 weights to float32.

Formats: "OCP 8-bit Floating Point Specification" 1.0, section 5.

bit  7    6 … 3    2 … 0                          7    6 … 2    1 … 0
     sign exponent mantissa   E4M3, bias 7        sign exponent mantissa   E5M2, bias 15
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class FP8Scales:
    """The scales of a matrix: `values` float32 [row blocks, column blocks].

    Each is the factor of a block of `rows` × `columns` weights; blocks at the end may be smaller.
    """

    values: Floats
    rows: int
    columns: int


def decode(stored: NDArray[np.uint8], dtype: str, scales: FP8Scales, first: int) -> Floats:
    """Rows from row `first` on as float32 [n, columns]; `stored` are their bytes [n, columns]."""
    rows = np.take(fp8_values(dtype), stored)
    blocks = scales.values[np.arange(first, first + len(rows)) // scales.rows]
    with np.errstate(all="ignore"):  # the encoder refuses NaN and Inf, naming row and column
        rows *= blocks.repeat(scales.columns, axis=1)[:, : rows.shape[1]]
    return rows


@cache
def fp8_values(dtype: str) -> Floats:
    """The value of each byte, computed through float16.

    E5M2 is the upper byte of a float16. E4M3 has its exponent and mantissa 7 bits lower, a bias smaller by 8, one NaN
    of each sign and no Inf.
    """
    codes = np.arange(256)
    bits = codes << 8 if dtype == "F8_E5M2" else (codes & 0x80) << 8 | (codes & 0x7F) << 7
    with np.errstate(invalid="ignore"):  # signaling NaN
        values = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    if dtype == "F8_E4M3":
        values *= np.float32(256)
        values[codes & 0x7F == 0x7F] = np.nan
    return values
