"""Decode the blocks of a tensor type to float32."""

import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kquants import FORMATS, jit
from kquants.ggml import GGMLType

_Kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)


def dequantize(kind: GGMLType, data: NDArray[np.uint8], folder: Path) -> NDArray[np.float32]:
    """The weights, float32 [n], of the blocks `data`, uint8 [bytes], of tensor type `kind`.

    `folder` is the cache of compiled kernels (see `kquants.jit.load`). Raises ValueError for a type that is not in
    FORMATS and for bytes that are not a multiple of the block size, and KernelError.
    """
    if kind.name not in FORMATS:
        raise ValueError(f"{kind.name} cannot be dequantized; {', '.join(FORMATS)} can")
    if data.dtype != np.uint8 or data.ndim != 1 or len(data) % kind.nbytes:
        raise ValueError(f"{kind.name} is dequantized from 1-D uint8 in blocks of {kind.nbytes}, not {data.shape}")
    name = f"dequantize_{kind.name.lower()}"
    kernel = _Kernel(jit.load([name], folder)[name])
    data = np.ascontiguousarray(data)
    weights = np.empty(len(data) // kind.nbytes * kind.block, np.float32)
    unused = ctypes.c_int64()
    kernel(ctypes.addressof(unused), None, data.ctypes.data, len(weights), weights.ctypes.data)
    return weights
