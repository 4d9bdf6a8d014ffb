"""NVFP4: floats of 4 bits (e2m1.py), of which 16 in a row share a scale in FP8, and a matrix a factor.

A module of `rows` outputs and `columns` inputs has, in two versions:

    MODULE.weight           MODULE.weight_packed          U8       [rows, columns / 2]     see e2m1.py
    MODULE.weight_scale     MODULE.weight_scale           F8_E4M3  [rows, columns / 16]
    MODULE.weight_scale_2   MODULE.weight_global_scale    F32      [] or [1]
    MODULE.input_scale      MODULE.input_global_scale     F32      of activations, not needed

    weight = e2m1 · scale · weight_scale_2, or e2m1 · scale / weight_global_scale

Sources: ModelOpt, `to_quantized_weight` of modelopt/torch/export/quant_utils.py; compressed-tensors,
compressors/quantized_compressors/fp4_quantized.py. A factor is the number nearest to the reciprocal in float32, as
llama.cpp's converter has it. Blocks of GGUF hold the same weights but for the factor, four scales and 64 weights in 36
bytes, where rows are whole blocks; the sign of a scale, which is 0, is not stored.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.e2m1 import e2m1_floats, halves_apart
from converters.checkpoint.quantized.fp8_numbers import fp8_values
from converters.checkpoint.quantized.parts import modules_with, number_of, part_of
from converters.checkpoint.quantized.small import check_finite, read_floats
from converters.checkpoint.quantized.weight import Precision, QuantizedWeight, Tensors
from converters.checkpoint.rows import stored
from converters.checkpoint.shard import StoredTensor
from converters.tensors import ExactRows, StoredBlocks
from edgellm.fmt import printable

_NAME, _SCALE_DTYPE = "NVFP4", "F8_E4M3"
_GROUP, _BLOCK = 16, 64
_PRECISION = Precision(_NAME, 4, f"in groups of {_GROUP}")


class _Version(NamedTuple):
    """The names of tensors, and whether weights are divided by the factor."""

    codes: str
    factor: str
    of_inputs: str
    divides: bool


_MODELOPT = _Version("weight", "weight_scale_2", "input_scale", divides=False)
_COMPRESSED = _Version("weight_packed", "weight_global_scale", "input_global_scale", divides=True)


def find_nvfp4(tensors: Tensors) -> Iterator[QuantizedWeight]:
    """The weights in NVFP4 of both versions. Raises ModelFileError for parts that do not fit each other."""
    for module in modules_with(tensors, "weight_scale"):
        if tensors[f"{module}.weight_scale"].dtype != _SCALE_DTYPE:
            continue
        for version in (_MODELOPT, _COMPRESSED):
            codes = tensors.get(f"{module}.{version.codes}")
            if codes is not None and codes.dtype == "U8":
                yield _weight(tensors, module, version)


def _weight(tensors: Tensors, module: str, version: _Version) -> QuantizedWeight:
    codes = part_of(tensors, module, version.codes, ("U8",), (None, None))
    rows, columns = codes.shape[0], 2 * codes.shape[1]
    scales = part_of(tensors, module, "weight_scale", (_SCALE_DTYPE,), (rows, -(-columns // _GROUP)))
    if columns % _GROUP:
        problem = f"tensor {printable(codes.name)} has rows of {columns} weights, which are no groups of {_GROUP}"
        fail(codes.file, f"{problem}; download the checkpoint again")
    factor = number_of(tensors, module, version.factor)
    of_inputs = tensors.get(f"{module}.{version.of_inputs}")
    parts = (codes, scales, factor, of_inputs) if of_inputs else (codes, scales, factor)
    reader = partial(_reader, codes, scales, factor, version.divides)
    return QuantizedWeight(f"{module}.weight", (rows, columns), "F32", parts, _PRECISION, reader)


def _reader(codes: StoredTensor, scales: StoredTensor, stored_factor: StoredTensor, divides: bool) -> ExactRows:
    """A reader of rows as float32, or as blocks. Raises ModelFileError for a factor of 0, NaN or Inf."""
    factor = _factor(stored_factor, divides)
    bytes_of, scales_of = stored(codes), stored(scales)

    def floats(first: int, last: int) -> NDArray[np.uint8]:
        found = e2m1_floats(bytes_of(first, last))
        found *= _checked(scales, first, scales_of(first, last)).repeat(_GROUP, axis=1)
        with np.errstate(over="ignore"):  # the encoder refuses Inf, naming row and column
            found *= factor
        return found.view(np.uint8)

    def blocks(first: int, last: int) -> NDArray[np.uint8]:
        of_rows = scales_of(first, last)
        _checked(scales, first, of_rows)
        weights = halves_apart(bytes_of(first, last).reshape(last - first, -1, _GROUP // 2))
        shape = (last - first, codes.shape[1] * 2 // _BLOCK, -1)
        found = np.concatenate([of_rows.reshape(shape) & 0x7F, weights.reshape(shape)], axis=-1)
        return found.reshape(last - first, -1)

    whole = codes.shape[1] * 2 % _BLOCK == 0
    return ExactRows(floats, lambda _: None, StoredBlocks(_NAME, blocks, (float(factor),)) if whole else None)


def _factor(tensor: StoredTensor, divides: bool) -> np.float32:
    value = read_floats(tensor).reshape(1)
    check_finite(tensor, value, 0, "number")
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.float32(1) / value[0] if divides else value[0]
    if not np.isfinite(factor) or factor == 0:
        problem = f"tensor {printable(tensor.name)}: holds {value[0]}, which is no factor"
        fail(tensor.file, f"{problem}; get a whole copy of the model")
    return np.float32(factor)


def _checked(tensor: StoredTensor, first: int, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The scales [rows, groups] of `codes`, from row `first` on. Raises ModelFileError for NaN and scales below 0."""
    values = fp8_values(_SCALE_DTYPE)[codes]
    check_finite(tensor, values, first, "row", "group")
    negative = values < 0
    if negative.any():
        row, group = divmod(int(negative.argmax()), codes.shape[1])
        where = f"tensor {printable(tensor.name)}, row {first + row}, group {group}"
        problem = f"{where}: holds {values[row, group]}, and scales are not negative"
        fail(tensor.file, f"{problem}; get a whole copy of the model")
    return values
