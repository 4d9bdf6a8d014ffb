"""Conversion of rows from one type to another, through float32."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from converters.gptq.compensate import compensated
from converters.tensors import PlannedTensor, Source
from edgellm.errors import EdgeLLMError, ModelFileError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.gguf.nonfinite import FLOATS
from edgellm.system.folders import cache_folder
from kquants import FLOAT_FORMATS, FORMATS, jit
from kquants.dequantize import dequantize
from kquants.encode import Encoded, NotEncodableError, encode, kernel_of
from kquants.ggml import NAMED_TYPES
from kquants.ik_types import NAMED_IK_TYPES, replacement
from kquants.plain_types import PLAIN_TYPES, plain_floats
from kquants.round_columns import KERNEL as ROUND_COLUMNS


class RowConverter:
    """Dequantizes and encodes rows with the kernels that `tensors` need, compiled for this CPU.

    `compile_progress` is called while they compile. Raises UnsupportedModelError for a tensor in a type that cannot be
    dequantized, EdgeLLMError if the kernels cannot be compiled.
    """

    def __init__(self, tensors: Sequence[PlannedTensor], compile_progress: jit.Progress | None) -> None:
        self._folder = cache_folder()
        changed = [tensor for tensor in tensors if not is_copied(tensor)]
        for source in (tensor.source for tensor in changed):
            if source.type not in (*FORMATS, *PLAIN_TYPES):
                raise UnsupportedModelError(f"tensor {printable(source.name)} is {source.type}, {_reason(source.type)}")
        names = {f"dequantize_{kind.lower()}" for t in changed if (kind := t.source.type) not in PLAIN_TYPES}
        names |= {kernel_of(tensor.type) for tensor in changed}
        if rounded := [tensor for tensor in changed if tensor.compensated]:
            names |= {ROUND_COLUMNS, *(f"dequantize_{tensor.type.name.lower()}" for tensor in rounded)}
        try:
            jit.load(names, self._folder, compile_progress)
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be compiled: {error}") from None

    def convert(self, tensor: PlannedTensor, first: int, data: NDArray[np.uint8]) -> Encoded:
        """Convert `data`, uint8 [rows, row_bytes], which holds the rows of a tensor from row `first` on.

        Raises ModelFileError for NaN, Inf, and weights too large for the new type.
        """
        if is_copied(tensor):
            _check_finite(tensor, first, data)
            return Encoded(data, 0.0, 0.0)
        return self.encode(tensor, first, self.floats(tensor.source, data))

    def floats(self, source: Source, data: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Rows of a tensor, uint8 [rows, row_bytes], as float32 [rows, columns]."""
        kind, data = NAMED_TYPES[source.type], data.reshape(-1)
        weights = plain_floats(kind, data) if kind.name in PLAIN_TYPES else dequantize(kind, data, self._folder)
        return weights.reshape(-1, source.columns)

    def encode(self, tensor: PlannedTensor, first: int, weights: NDArray[np.float32]) -> Encoded:
        """Encode `weights`, float32 [rows, columns], the rows of a tensor from row `first` on; raises as `convert`.

        Where the importance of the tensor's columns is known, all rows are of one of its matrices.
        """
        importance = importance_of(tensor, first)
        try:
            if tensor.passed_on is not None and importance is not None:
                return compensated(tensor.type, weights, tensor.passed_on, importance, self._folder)
            return encode(tensor.type, weights, self._folder, importance)
        except NotEncodableError as error:
            _refuse(tensor, first, error)


def _reason(name: str) -> str:
    """Why rows of a type are not read, and what to do."""
    if name in NAMED_IK_TYPES:
        nearest = replacement(NAMED_IK_TYPES[name])
        return f"which only ik_llama.cpp reads; start from floats, or from a file in {nearest}"
    return "which this version cannot read; start from another file"


def importance_of(tensor: PlannedTensor, row: int) -> NDArray[np.float32] | None:
    """The importance of the columns of the matrix that has a row, float32 [columns]; None if it is not known."""
    if tensor.importance is None:
        return None
    found: NDArray[np.float32] = tensor.importance[row * len(tensor.importance) // tensor.source.row_count]
    return found


def is_copied(tensor: PlannedTensor) -> bool:
    """Whether a tensor keeps its type, so that its bytes are copied."""
    return tensor.source.type == tensor.type.name


def _check_finite(tensor: PlannedTensor, first: int, data: NDArray[np.uint8]) -> None:
    """Refuse NaN and Inf in copied floats, as the encoders do; quantized blocks are not checked."""
    if tensor.type.name not in FLOAT_FORMATS:
        return
    unsigned, exponent = FLOATS[tensor.type.name]
    bits = data.reshape(-1).view(unsigned)
    flags = bits & exponent == exponent
    if flags.any():
        index = int(flags.argmax())
        lowest = exponent & -exponent  # of its bits; below lies the mantissa, above the sign
        value = np.nan if bits[index] & (lowest - 1) else -np.inf if bits[index] & (exponent + lowest) else np.inf
        _refuse(tensor, first, NotEncodableError(tensor.type, index, value))


def _refuse(tensor: PlannedTensor, first: int, error: NotEncodableError) -> NoReturn:
    row, column = divmod(error.index, tensor.source.columns)
    *matrices, rows, _ = (1, *tensor.source.shape)
    matrix, row = divmod(first + row, rows)
    within = f"matrix {matrix}, row {row}" if len(matrices) > 1 else f"row {row}"
    place = f"tensor {printable(tensor.source.name)}, {within}, column {column}"
    if np.isfinite(error.value):
        advice = "give it another type with --tensor-type, such as BF16"
        raise ModelFileError(f"{place}: {error.value:g} is too large for {tensor.type.name}; {advice}") from None
    raise ModelFileError(f"{place}: holds {error.value} instead of a number; get a whole copy of the model") from None
