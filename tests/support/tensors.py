"""Tensors for tests that need no file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.gguf import Tensor
from kquants.ggml import NAMED_TYPES


def float_tensor(name: str, values: NDArray[Any]) -> Tensor:
    """A tensor of these values as float32."""
    values = np.ascontiguousarray(values, np.float32)
    return Tensor(name, NAMED_TYPES["F32"], values.shape, values.reshape(-1).view(np.uint8), 0, Path("no file"))
