"""FP8 weights with their scales: rows as float32.

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
    """What the weights of a matrix are multiplied by: `values` float32 [row blocks, column blocks].

    A block has `rows` × `columns` weights; the last ones of a matrix may be cut.
    """

    values: Floats
    rows: int
    columns: int


def decode(stored: NDArray[np.uint8], dtype: str, scales: FP8Scales, first: int) -> Floats:
    """Rows first, first + 1, … as float32 [n, columns]; `stored` are their bytes [n, columns]."""
    rows = np.take(_values(dtype), stored)
    blocks = scales.values[np.arange(first, first + len(rows)) // scales.rows]
    with np.errstate(all="ignore"):  # what is not finite is refused where it is encoded, by its place
        rows *= blocks.repeat(scales.columns, axis=1)[:, : rows.shape[1]]
    return rows


@cache
def _values(dtype: str) -> Floats:
    """The value of each byte, through float16: E5M2 is its upper byte, E4M3 its exponent and mantissa moved up by 7.

    (float16's bias is larger than E4M3's by 8, and E4M3 has one NaN of each sign and no Inf.)
    """
    codes = np.arange(256)
    bits = codes << 8 if dtype == "F8_E5M2" else (codes & 0x80) << 8 | (codes & 0x7F) << 7
    with np.errstate(invalid="ignore"):  # signaling NaN
        values = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    if dtype == "F8_E4M3":
        values *= np.float32(256)
        values[codes & 0x7F == 0x7F] = np.nan
    return values
