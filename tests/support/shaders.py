"""Shaders on their own: what they read and write, and the constants that they are told."""

from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from edgellm.engine.webgpu.batch_layout import HEADER, ROW
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from support.kernels import KINDS
from support.random_weights import ENCODERS

COLUMNS, ROWS = 512, 70
"""Columns and rows of most matrices."""

Array = NDArray[Any]


def put(gpu: GPUContext, array: Array) -> Buffer:
    """An array on the GPU."""
    data = np.frombuffer(array.tobytes() + bytes(-array.nbytes % 4), np.uint8)
    buffer = gpu.buffer(data.nbytes, "a test")
    gpu.write(buffer, data)
    return buffer


def get(gpu: GPUContext, buffer: Buffer, shape: tuple[int, ...]) -> NDArray[np.float32]:
    n = 4 * int(np.prod(shape))
    gpu.submit([], copies=[(buffer, 0, gpu.staging(n), 0, n)])
    return gpu.read(n).reshape(shape)


def lanes(gpu: GPUContext) -> str:
    return "lanes_subgroup" if "subgroups" in gpu.features else "lanes_tree"


def rows(n: int, outputs: list[int]) -> Array:
    """A batch of n rows."""
    batch = np.zeros(HEADER + ROW * n, np.uint32)
    batch[:2] = n, len(outputs)
    batch[HEADER:].reshape(n, ROW)[: len(outputs), 4] = outputs
    return batch


def random(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def matrix(name: str, columns: int, seed: int = 0) -> tuple[Array, NDArray[np.float64]]:
    """Rows of a format as a file has them, and what they mean."""
    kind = gguf.GGMLQuantizationType[name]
    stored = ENCODERS[kind](np.random.default_rng(seed), ROWS, columns, 1.0)
    return stored, gguf.quants.dequantize(stored, kind).astype(np.float64)


def columns_of(name: str) -> int:
    """Columns that are no whole groups of 32 where the format allows it."""
    return COLUMNS - 3 if KINDS[name].block == 1 else COLUMNS


def whole_numbers(n: int, columns: int) -> NDArray[np.float32]:
    """Rows of x that rounding to 127 steps leaves as they are, and so the only error is that of float32."""
    x = np.random.default_rng(1).integers(-127, 128, (n, columns)).astype(np.float32)
    x[:, ::32] = 127
    x[0, 32:64] = 0
    return x


def padded(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.pad(x, ((0, 0), (0, -x.shape[1] % 32)))


def near(found: Array, wanted: Array) -> None:
    scale = np.abs(wanted).max()
    assert np.abs(found - wanted).max() < 2e-6 * scale * np.sqrt(COLUMNS)


def told(**given: Any) -> dict[str, Any]:
    """The constants of the shaders of matmuls."""
    flags = dict.fromkeys(("NORMED", "BIASED", "ADDED", "GATED", "GATHERED"), False)
    return {"LANES": 64, "EACH": 1, "EPS": 1e-5, "FACTOR": 1.0, "SOFT_CAP": 0.0} | flags | given


def shape(gpu: GPUContext, columns: int, y_stride: int, first: int = 0, rows: int = ROWS) -> Buffer:
    """See `shaders/shape.wgsl`; tensors have ROWS rows each."""
    return gpu.uniform([rows, first, columns, -(-columns // 32) * 8, y_stride, ROWS, 2 * ROWS, 0])
