"""Tensors for tests that need no file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.gguf import Tensor
from kquants.ggml import NAMED_TYPES


def float_tensor(name: str, values: NDArray[Any], kind: str = "F32") -> Tensor:
    """A tensor of these values as float32, or one that says to be of another type."""
    values = np.ascontiguousarray(values, np.float32)
    return Tensor(name, NAMED_TYPES[kind], values.shape, values.reshape(-1).view(np.uint8), 0, Path("no file"))
