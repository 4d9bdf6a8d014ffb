"""Reading small tensors whole, such as scales."""

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from edgellm.fmt import printable

FLOATS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""The float types of safetensors that are read, with the NumPy types of their bytes."""


def read_floats(tensor: StoredTensor) -> NDArray[np.float32]:
    """All values of a small tensor in F32, F16 or BF16, float32 [n]."""
    return as_float32(read_bytes(tensor.file, tensor.offset, tensor.nbytes), tensor.dtype)


def as_float32(data: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    """Bytes of F32, F16 or BF16 numbers as float32 with the same rows."""
    values = data.view(FLOATS[dtype])
    with np.errstate(invalid="ignore"):  # signaling NaN
        return (values.astype("<u4") << 16).view(np.float32) if dtype == "BF16" else values.astype(np.float32)


def check_finite(tensor: StoredTensor, values: NDArray[np.float32], first: int, *places: str) -> None:
    """Refuse NaN and Inf in `values`, read from `tensor` from index `first` of its first dimension on.

    `places` name the dimensions of `values` in the message, such as "row" and "group". Raises ModelFileError.
    """
    wrong = ~np.isfinite(values)
    if wrong.any():
        index = [int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape)]
        found = values[tuple(index)]
        where = ", ".join(f"{place} {i}" for place, i in zip(places, [first + index[0], *index[1:]], strict=True))
        problem = f"tensor {printable(tensor.name)}, {where}: holds {found} instead of a number"
        fail(tensor.file, f"{problem}; get a whole copy of the model")
