"""MXFP4 as compressed-tensors stores it: floats of 4 bits (e2m1.py), of which 32 in a row share a power of two.

    MODULE.weight_packed   U8   [rows, columns / 2]      see e2m1.py
    MODULE.weight_scale    U8   [rows, columns / 32]     or F8_E8M0: weight = e2m1 · 2^(scale - 127), and 255 is NaN

Formats: "OCP Microscaling Formats (MX)" 1.0, section 5; compressed-tensors,
compressors/quantized_compressors/fp4_quantized.py. Blocks of GGUF hold the same numbers.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.quantized.e2m1 import e2m1_floats, halves_apart
from converters.checkpoint.quantized.parts import part_of
from converters.checkpoint.quantized.small import check_finite
from converters.checkpoint.quantized.weight import Precision, QuantizedWeight, Tensors
from converters.checkpoint.rows import stored
from converters.checkpoint.shard import StoredTensor
from converters.tensors import ExactRows, StoredBlocks

SCALE_DTYPES = ("U8", "F8_E8M0")
_NAME, _BLOCK = "MXFP4", 32
_BIAS, _NAN = 127, 255
_PRECISION = Precision(_NAME, 4, f"in blocks of {_BLOCK}")


def packed_mxfp4(tensors: Tensors, module: str) -> QuantizedWeight:
    """The weight of a module. Raises ModelFileError for parts that do not fit each other."""
    scales = part_of(tensors, module, "weight_scale", SCALE_DTYPES, (None, None))
    rows, columns = scales.shape[0], scales.shape[1] * _BLOCK
    codes = part_of(tensors, module, "weight_packed", ("U8",), (rows, columns // 2))
    reader = partial(_reader, codes, scales)
    return QuantizedWeight(f"{module}.weight", (rows, columns), "F32", (codes, scales), _PRECISION, reader)


def _reader(codes: StoredTensor, scales: StoredTensor) -> ExactRows:
    bytes_of, scales_of = stored(codes), stored(scales)

    def floats(first: int, last: int) -> NDArray[np.uint8]:
        found = e2m1_floats(bytes_of(first, last))
        with np.errstate(over="ignore"):  # the encoder refuses Inf, naming row and column
            found *= _checked(scales, first, scales_of(first, last)).repeat(_BLOCK, axis=1)
        return found.view(np.uint8)

    def blocks(first: int, last: int) -> NDArray[np.uint8]:
        of_rows = scales_of(first, last)
        _checked(scales, first, of_rows)
        weights = halves_apart(bytes_of(first, last).reshape(*of_rows.shape, _BLOCK // 2))
        return np.concatenate([of_rows[..., None], weights], axis=-1).reshape(last - first, -1)

    return ExactRows(floats, lambda _: None, StoredBlocks(_NAME, blocks))


def _checked(tensor: StoredTensor, first: int, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The scales [rows, blocks] of `codes`, from row `first` on. Raises ModelFileError for NaN."""
    values = np.ldexp(np.float32(1), np.minimum(codes, _NAN - 1).astype(np.int32) - _BIAS)
    values[codes == _NAN] = np.nan
    check_finite(tensor, values, first, "row", "block")
    return values
