"""Tensor types that the gguf package does not decode yet, or does not know: `register` adds them to it.

Written from ggml's documentation of their blocks; `tests/kquants/test_ggml_types.py` compares them with ggml itself.
"""

from functools import cache
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

Array = NDArray[Any]


def _named(name: str, number: int, block: int, nbytes: int) -> Type:
    """The member of the package's enumeration, made if it is not there."""
    if name not in Type.__members__:
        member = int.__new__(Type, number)
        member._name_, member._value_ = name, number
        Type._member_map_[name] = Type._value2member_map_[number] = member
        Type._member_names_.append(name)
        gguf.GGML_QUANT_SIZES[member] = block, nbytes
    return Type[name]


def _q1_0(blocks: Array) -> Array:
    """w = d or -d."""
    return _scaled(blocks, 2 * np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").astype(np.int8) - 1)


def _q2_0(blocks: Array) -> Array:
    """w = d · (q - 1), four q in a byte, the first in its lowest bits."""
    pairs = blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return _scaled(blocks, pairs.reshape(len(blocks), -1).astype(np.int8) - 1)


def _scaled(blocks: Array, q: Array) -> Array:
    return np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32) * q.astype(np.float32)


def _add(qtype: Type, decode: Any) -> None:
    try:
        gguf.quants.dequantize(np.empty((0, gguf.GGML_QUANT_SIZES[qtype][1]), np.uint8), qtype)
    except NotImplementedError:
        methods = {
            "dequantize_blocks": classmethod(lambda cls, blocks: decode(blocks)),
            "quantize_blocks": classmethod(lambda cls, blocks: NotImplemented),
        }
        type(gguf.quants.Q8_0)(qtype.name, gguf.quants.Q8_0.__bases__, methods, qtype=qtype)


@cache
def register() -> None:
    """Add the types."""
    _add(_named("Q1_0", 41, 128, 18), _q1_0)
    _add(_named("Q2_0", 42, 64, 18), _q2_0)
