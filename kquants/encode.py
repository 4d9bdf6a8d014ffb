"""Encode rows of float32 weights to the blocks of a tensor type; `kquants.dequantize` is the way back.

Calls release the GIL, keep no state, and may come from several threads at once. A row gives the same bytes on every
CPU, whatever other rows are encoded in the same call.
"""

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kquants import ENCODED_FORMATS, jit
from kquants.ggml import GGMLType

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_Kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 6)


class NotEncodableError(ValueError):
    """A weight is NaN or Inf, or too large for the type's float16 scale.

    `value` is the weight, `index` its index in the flattened rows.
    """

    def __init__(self, kind: GGMLType, index: int, value: float) -> None:
        self.index, self.value = index, value
        super().__init__(f"weight {index} is {value:g}, which {kind.name} cannot hold")


class Encoded(NamedTuple):
    """Blocks, uint8 [rows, row bytes]; the sum of the squared errors, and of the squares, of all weights."""

    data: Bytes
    error: float
    squares: float


class _EncodeResult(ctypes.Structure):
    """The result record of an encoder, see `kquants.encoders.encode_result`."""

    _fields_ = (("first_bad", ctypes.c_int64), ("error", ctypes.c_double), ("squares", ctypes.c_double))


def kernel_of(kind: GGMLType) -> str:
    """The name of the type's encoder, for `kquants.jit.load`; ValueError for a type not in ENCODED_FORMATS."""
    if kind.name not in ENCODED_FORMATS:
        raise ValueError(f"{kind.name} cannot be encoded; {', '.join(ENCODED_FORMATS)} can")
    return f"encode_{kind.name.lower()}"


def encode(kind: GGMLType, values: Floats, folder: Path, importance: Floats | None = None) -> Encoded:
    """The blocks for `values`, float32 [rows, columns], where columns is a multiple of `kind.block`.

    `importance`, float32 [columns], finite and not negative, weights the squared error of each column where the type
    leaves a choice; the returned sums are not weighted. `folder` is the cache of compiled kernels (see
    `kquants.jit.load`). Raises NotEncodableError for the first weight that the type cannot hold, another ValueError for
    a type or arrays other than these, and KernelError.
    """
    _check_rows(kind, values)
    target = np.empty((len(values), kind.row_bytes(values.shape[1])), np.uint8)
    return Encoded(target, *encode_into(target, kind, values, folder, importance))


def encode_into(
    target: Bytes, kind: GGMLType, values: Floats, folder: Path, importance: Floats | None = None
) -> tuple[float, float]:
    """Like `encode`, but writes to `target`, uint8 [rows, row bytes], and returns (error, squares)."""
    name = kernel_of(kind)
    _check_rows(kind, values)
    _check("target", target, np.uint8, (len(values), kind.row_bytes(values.shape[1])))
    if not target.flags.writeable:
        raise ValueError("target cannot be written")
    weights = 0 if importance is None else _checked_importance(importance, values.shape[1]).ctypes.data
    result, unused = _EncodeResult(), ctypes.c_int64()
    addresses = (weights, target.ctypes.data, ctypes.addressof(result))
    kernel = _Kernel(jit.load([name], folder)[name])
    kernel(ctypes.addressof(unused), None, values.ctypes.data, *values.shape, *addresses)
    if result.first_bad >= 0:
        raise NotEncodableError(kind, result.first_bad, float(values.reshape(-1)[result.first_bad]))
    return result.error, result.squares


def _check_rows(kind: GGMLType, values: Floats) -> None:
    kernel_of(kind)
    _check("values", values, np.float32, values.shape)
    if values.ndim != 2 or values.shape[1] % kind.block:
        raise ValueError(f"{kind.name} takes 2-D values in rows of blocks of {kind.block}, not {values.shape}")


def _checked_importance(importance: Floats, columns: int) -> Floats:
    _check("importance", importance, np.float32, (columns,))
    if not (np.isfinite(importance) & (importance >= 0)).all():
        raise ValueError("importance must be finite and not negative")
    return importance


def _check(what: str, array: NDArray[Any], dtype: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless the array is contiguous and of this type and shape: compiled code checks nothing."""
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        found = f"{array.dtype} {array.shape}" + ("" if array.flags.c_contiguous else ", not contiguous")
        raise ValueError(f"{what} must be contiguous {np.dtype(dtype)} {shape}, not {found}")
