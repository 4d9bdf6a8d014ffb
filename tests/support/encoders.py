"""What encoders make of rows, what the gguf package reads from that, and the largest weights that each takes."""

import gguf
import numpy as np
from numpy.typing import NDArray

from kquants import ENCODED_FORMATS, FLOAT_FORMATS
from kquants.encode import Encoded, encode
from support.encoder_samples import Floats, samples
from support.kernels import KINDS, cache_folder

GRIDS = ["IQ3_S", "IQ3_XXS", "IQ2_XS"]
TERNARY = ["TQ2_0", "TQ1_0"]
SEARCHED = [name for name in ENCODED_FORMATS if name not in (*FLOAT_FORMATS, "Q8_0")]
"""Formats that leave a choice of the scale."""

_HALF = 65504
LARGEST = {"F32": float(np.finfo(np.float32).max), "F16": 65519.99609375, "BF16": 3.396177326406364e38}
LARGEST |= {"Q8_0": 127 * _HALF, "Q5_0": 15 * _HALF, "Q4_0": 7 * _HALF, "IQ4_NL": 113 * _HALF}
LARGEST |= dict.fromkeys(("Q5_1", "Q4_1", *TERNARY), _HALF)
LARGEST |= {"Q6_K": 1e8, "Q5_K": 1e6, "Q4_K": 1e6, "Q3_K": 4e6, "Q2_K": 5e5, "IQ4_XS": 1e8}
LARGEST |= {"IQ3_S": 2e6, "IQ3_XXS": 1e7, "IQ2_XS": 5e6, "MXFP4": 2.0**127, "NVFP4": 6 * 448}
"""The largest magnitude that an encoder takes: of formats without super-blocks, the largest that does not make a scale
Inf (of those with levels of both signs, on either side)."""

assert LARGEST.keys() == set(ENCODED_FORMATS)


def encoded(name: str, rows: Floats, importance: Floats | None = None) -> Encoded:
    return encode(KINDS[name], np.ascontiguousarray(rows), cache_folder(), importance)


def decoded(name: str, data: NDArray[np.uint8]) -> NDArray[np.float64]:
    weights: Floats = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name])
    return weights.astype(np.float64)


def squared_error(name: str, rows: Floats, data: NDArray[np.uint8], importance: Floats | None = None) -> float:
    """The sum of the squared errors, each times the importance of its column."""
    squares = (rows - decoded(name, data)) ** 2
    return float((squares if importance is None else squares * importance).sum())


def samples_for(name: str) -> dict[str, Floats]:
    """Rows of several distributions, by name, with no more than the encoder takes."""
    largest = np.float32(LARGEST[name])
    return {what: rows.clip(-largest, largest) for what, rows in samples().items()}
