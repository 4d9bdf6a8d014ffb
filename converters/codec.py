"""A slab's bytes from the type they have to the type they get, through float32."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from converters.interim_encode import encode
from converters.tensors import Planned
from edgellm.errors import EdgeLLMError, ModelFileError, UnsupportedModelError
from edgellm.gguf.printable import printable
from edgellm.home import cache_folder
from kquants import FLOAT_FORMATS, FORMATS, jit
from kquants.dequantize import dequantize
from kquants.ggml import GGML_TYPES

_TYPES = {t.name: t for t in GGML_TYPES.values()}


class Encoded(NamedTuple):
    """Rows in their new type, uint8 [rows, row_bytes], and sums over the weights: of squared errors, of squares."""

    data: NDArray[np.uint8]
    error: float
    power: float


class Codec:
    """What the types of some tensors need, compiled for this CPU; `compiling` is called meanwhile.

    Raises UnsupportedModelError for a tensor that cannot be read, EdgeLLMError where kernels cannot be made.
    """

    def __init__(self, tensors: Sequence[Planned], compiling: jit.Progress | None) -> None:
        self._folder = cache_folder()
        for tensor in tensors:
            if tensor.source.type not in FORMATS and not is_kept(tensor):
                what = f"tensor {printable(tensor.source.name)} ({tensor.source.type})"
                raise UnsupportedModelError(f"{what}: this type cannot be read; start from another file")
        kernels = {f"dequantize_{t.source.type.lower()}" for t in tensors if not is_kept(t)}
        try:
            jit.load(kernels, self._folder, compiling)
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be made: {error}") from None

    def convert(self, tensor: Planned, first: int, data: NDArray[np.uint8]) -> Encoded:
        """Rows of a tensor, uint8 [rows, row_bytes], of which `data` begins at row `first`.

        Raises ModelFileError for NaN, Inf and what is too large for the new type.
        """
        if is_kept(tensor):
            return Encoded(data, 0.0, 0.0)
        weights = self.decode(tensor.source.type, data).reshape(len(data), -1)
        return self.encode(tensor, first, weights)

    def decode(self, kind: str, data: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The weights of whole rows, 1-D."""
        return dequantize(_TYPES[kind], data.reshape(-1), self._folder)

    def encode(self, tensor: Planned, first: int, weights: NDArray[np.float32]) -> Encoded:
        """Weights float32 [rows, columns]; `first` as in `convert`."""
        encoded, bad, error, power = encode(tensor.type, weights, self._folder)
        if bad >= 0:
            _refuse(tensor, first, bad, float(weights.reshape(-1)[bad]))
        return Encoded(encoded, error, power)


def is_kept(tensor: Planned) -> bool:
    """Blocks that stay as they are are not even looked at; floats are, for NaN and Inf."""
    return tensor.source.type == tensor.type.name and tensor.type.name not in FLOAT_FORMATS


def _refuse(tensor: Planned, first: int, bad: int, weight: float) -> NoReturn:
    row, column = divmod(bad, tensor.source.columns)
    place = f"tensor {printable(tensor.source.name)}, row {first + row}, column {column}"
    if np.isfinite(weight):
        raise ModelFileError(f"{place}: {weight:g} is too large for {tensor.type.name}; choose BF16 or F32 for it")
    raise ModelFileError(f"{place}: {'NaN' if np.isnan(weight) else 'Inf'} instead of a number; get a whole checkpoint")
