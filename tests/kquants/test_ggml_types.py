"""Tensor types of ggml itself: sizes, and weights of those that the gguf package does not decode."""

import ctypes
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from kquants.ggml import GGML_TYPES, NAMED_TYPES
from support import gguf_types
from support.encoder_oracle import ggml_base
from support.kernels import random_blocks

gguf_types.register()


class _Traits(ctypes.Structure):
    """ggml_type_traits, as far as `to_float`."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("blck_size", ctypes.c_int64),
        ("blck_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    )


@pytest.fixture(scope="module")
def ggml() -> ctypes.CDLL:
    library = ggml_base()
    library.ggml_get_type_traits.restype = ctypes.POINTER(_Traits)
    return library


def test_names_and_sizes_are_those_of_ggml(ggml: ctypes.CDLL) -> None:
    for kind in GGML_TYPES.values():
        traits: Any = ggml.ggml_get_type_traits(kind.number).contents
        assert (traits.type_name.decode().upper(), traits.blck_size, traits.type_size) == kind[1:4]


@pytest.mark.parametrize("name", ["Q1_0", "Q2_0"])
def test_weights_that_the_package_lacks_are_those_of_ggml(ggml: ctypes.CDLL, name: str) -> None:
    kind = NAMED_TYPES[name]
    blocks = random_blocks(np.random.default_rng(1), kind, 500)
    weights = np.empty(500 * kind.block, np.float32)
    traits: Any = ggml.ggml_get_type_traits(kind.number).contents
    traits.to_float(blocks.ctypes.data, weights.ctypes.data, len(weights))
    assert np.array_equal(weights, gguf.quants.dequantize(blocks.reshape(-1), Type[name]))
