"""Finding and reading the scales of an FP8 weight."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.fp8 import FP8Scales
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from edgellm.fmt import printable

FP8 = ("F8_E4M3", "F8_E5M2")
_ADDED = ("_scale_inv", "_scale")
_OF_INPUTS = ("input_scale", "activation_scale")
_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def scale_names(tensors: Mapping[str, StoredTensor]) -> set[str]:
    """The names of tensors that are scales of FP8 weights, or of the activations they multiply."""
    weights = [name for name, tensor in tensors.items() if tensor.dtype in FP8]
    own = {name + added for name in weights for added in _ADDED}
    of_inputs = {name.removesuffix("weight") + added for name in weights for added in _OF_INPUTS}
    return (own | of_inputs) & tensors.keys()


def scale_of(tensors: Mapping[str, StoredTensor], weight: StoredTensor) -> StoredTensor:
    """The tensor with the scales of a weight. They are factors, also the weight_scale_inv of DeepSeek and Qwen.

    Raises ModelFileError if there is none, if the weight is no matrix, or if the scales have an unsupported dtype.
    """
    found = next((tensors[weight.name + added] for added in _ADDED if weight.name + added in tensors), None)
    if found is None:
        fail(weight.file, f"FP8 tensor {printable(weight.name)} has no scale beside it; download the checkpoint again")
    shape = "x".join(map(str, weight.shape))
    what = f"FP8 tensor {printable(weight.name)} ({shape})"
    if len(weight.shape) != 2:
        fail(weight.file, f"{what} is no matrix, and only matrices are read in FP8; get the checkpoint in BF16")
    if found.dtype not in _DTYPES:
        fail(weight.file, f"{what} has {found.dtype} scales; get another checkpoint")
    return found


def read_scales(weight: StoredTensor, scale: StoredTensor, block: tuple[int, int]) -> FP8Scales:
    """Read scales: one per tensor, one per row, or one per `block` of rows and columns.

    Raises ModelFileError if their shape matches none of these, or if they cannot be read.
    """
    rows, columns = weight.shape
    blocks = (-(-rows // block[0]), -(-columns // block[1]))
    if scale.shape in ((), (1,), (1, 1)):
        return FP8Scales(read_floats(scale).reshape(1, 1), rows, columns)
    if scale.shape in ((rows,), (rows, 1)):
        return FP8Scales(read_floats(scale).reshape(rows, 1), 1, columns)
    if scale.shape == blocks:
        return FP8Scales(read_floats(scale).reshape(blocks), min(block[0], rows), min(block[1], columns))
    found = "x".join(map(str, scale.shape))
    problem = f"{found} scales, which fit no {rows}x{columns} matrix; get another checkpoint"
    return fail(scale.file, f"tensor {printable(scale.name)} holds {problem}")


def read_floats(scale: StoredTensor) -> NDArray[np.float32]:
    """All values of a small tensor in F32, F16 or BF16, float32 [n]."""
    values = read_bytes(scale.file, scale.offset, scale.nbytes).view(_DTYPES[scale.dtype])
    with np.errstate(invalid="ignore"):  # signaling NaN
        return (values.astype("<u4") << 16).view(np.float32) if scale.dtype == "BF16" else values.astype(np.float32)
