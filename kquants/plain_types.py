"""Tensor types that no kernel computes with, as float32: float64 and integers, and ggml's types of activations."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kquants.ggml import GGMLType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

NUMBERS = {"F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
"""NumPy's names of the types that are a number for each weight."""


def _q8_1(blocks: Bytes) -> Floats:
    """Blocks of 32 weights in 36 bytes, w = d · q: d f16, the sum of all w f16, q int8 (ggml: block_q8_1)."""
    d: Floats = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return d * blocks[:, 4:].view(np.int8)


def _q8_k(blocks: Bytes) -> Floats:
    """Blocks of 256 weights in 292 bytes, w = d · q: d f32, q int8, sums of 16 q each int16 (ggml: block_q8_K)."""
    return blocks[:, :4].copy().view(np.float32) * blocks[:, 4:260].view(np.int8)


_BLOCKS: dict[str, Callable[[Bytes], Floats]] = {"Q8_1": _q8_1, "Q8_K": _q8_k}

PLAIN_TYPES = (*NUMBERS, *_BLOCKS)


def plain_floats(kind: GGMLType, data: Bytes) -> Floats:
    """The weights, float32 [n], of `data`, uint8 [bytes], of a type in PLAIN_TYPES: the nearest to each."""
    data = np.ascontiguousarray(data)
    if kind.name in _BLOCKS:
        return _BLOCKS[kind.name](data.reshape(-1, kind.nbytes)).reshape(-1)
    with np.errstate(over="ignore"):
        return data.view(NUMBERS[kind.name]).astype(np.float32)


def exact_floats(kind: GGMLType, data: Bytes) -> Floats | None:
    """The values, float32 [n], of `data`, uint8 [bytes], of a type of NUMBERS, F16 or BF16.

    None if float32 does not hold all of them.
    """
    data = np.ascontiguousarray(data)
    if kind.name == "BF16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if kind.name == "F16":
        return data.view(np.float16).astype(np.float32)
    values, floats = data.view(NUMBERS[kind.name]), plain_floats(kind, data)
    if values.dtype.kind == "f":
        return floats if np.array_equal(values, floats.astype(np.float64), equal_nan=True) else None
    # As Python integers: an int64 beyond 2^53 is no float64, and its nearest float32 may be beyond int64.
    return floats if all(int(value) == int(near) for value, near in zip(values, floats, strict=True)) else None
