"""llama.cpp's own encoders as an independent oracle: `ggml_quantize_chunk` of the ggml in llama-cpp-python."""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray


@cache
def ggml_base() -> ctypes.CDLL:
    """The library of ggml's types; the test skips if it is not there."""
    package = find_spec("llama_cpp")
    if package is None or package.origin is None:
        pytest.skip("llama-cpp-python is not installed; it is the oracle of this test")
    folder = Path(package.origin).parent / "lib"
    found = sorted(folder.glob("*ggml-base.so")) + sorted(folder.glob("*ggml-base.d*"))
    if not found:
        pytest.skip("llama-cpp-python has no libggml-base; it is the oracle of this test")
    return ctypes.CDLL(str(found[0]))


@cache
def _quantize_chunk() -> Any:
    """The C function: (type, source, target, first value, rows, columns, importance or null) -> bytes."""
    function = ggml_base().ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    return function


def llama_cpp_encode(
    name: str, rows: NDArray[np.float32], importance: NDArray[np.float32] | None = None
) -> NDArray[np.uint8]:
    """llama.cpp's blocks, uint8 [rows, bytes], of finite float32 [rows, columns] in tensor type `name`.

    In this process: for finite rows of whole super-blocks it neither aborts nor prints. Others corrupt its heap.
    """
    assert rows.ndim == 2 and rows.shape[1] % 256 == 0
    assert np.isfinite(rows).all()
    kind = GGMLQuantizationType[name]
    block, nbytes = GGML_QUANT_SIZES[kind]
    source = np.ascontiguousarray(rows, np.float32)
    weights = None if importance is None else np.ascontiguousarray(importance, np.float32)
    assert weights is None or weights.shape == rows.shape[1:]
    target = np.empty((len(rows), rows.shape[1] // block * nbytes), np.uint8)
    pointer = None if weights is None else weights.ctypes.data
    written = _quantize_chunk()(int(kind), source.ctypes.data, target.ctypes.data, 0, *rows.shape, pointer)
    assert written == target.nbytes
    return target
