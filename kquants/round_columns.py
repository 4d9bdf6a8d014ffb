"""Round the columns of a block of rows one after the other: later ones make good for the errors of earlier ones."""

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kquants import jit

Floats = NDArray[np.float32]

KERNEL = "round_columns"
"""The name of the kernel, for `kquants.jit.load`."""

LANES = 16
"""Rows that are rounded at once."""

_MOST_COLUMNS = 256
_Kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 11)


class Rounded(NamedTuple):
    """Codes, uint8 [columns, rows], and the weights less what the codes stand for, float32 [columns, rows]."""

    codes: NDArray[np.uint8]
    errors: Floats


def round_columns(
    weights: Floats, target: Floats, scales: Floats, shifts: Floats, passed_on: Floats, levels: Floats, folder: Path
) -> Rounded:
    """Round `weights` to `scale · level + shift`, all float32 [columns, rows], up to 256 columns, `LANES` · n rows.

    Column j gets the nearest level to `target[j]` and the sum of `passed_on[j, i]` times the error of column i, over
    the columns i before it; `passed_on` is float32 [columns, columns]. `levels`, float32, 2 to 256 that ascend, are the
    levels of the codes 0, 1, …. `folder` is the cache of compiled kernels. Raises ValueError and KernelError.
    """
    columns, rows = weights.shape
    if rows % LANES or columns > _MOST_COLUMNS or not 2 <= len(levels) <= 256:
        raise ValueError(f"{columns} columns of {rows} rows and {len(levels)} levels cannot be rounded")
    for array in (weights, target, scales, shifts):
        _check(array, (columns, rows))
    _check(passed_on, (columns, columns))
    _check(levels, (len(levels),))
    result, unused = np.empty(5 * rows * columns, np.uint8), ctypes.c_int64()
    is_even = int((np.diff(levels) == 1).all())
    addresses = [array.ctypes.data for array in (weights, target, scales, shifts)]
    more = (passed_on.ctypes.data, levels.ctypes.data, len(levels), is_even, result.ctypes.data)
    kernel = _Kernel(jit.load([KERNEL], folder)[KERNEL])
    kernel(ctypes.addressof(unused), None, *addresses, rows, columns, *more)
    errors, codes = result[: 4 * rows * columns].view(np.float32), result[4 * rows * columns :]
    return Rounded((codes ^ np.uint8(128)).reshape(columns, rows), errors.reshape(columns, rows))


def _check(array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Raise ValueError unless an array is contiguous float32 of this shape: compiled code checks nothing."""
    if array.dtype != np.float32 or array.shape != shape or not array.flags.c_contiguous:
        raise ValueError(f"an array must be contiguous float32 {shape}, not {array.dtype} {array.shape}")
