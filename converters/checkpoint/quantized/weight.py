"""A weight that several stored tensors hold together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.shard import StoredTensor
from converters.tensors import RowReader

Tensors = Mapping[str, StoredTensor]
"""Stored tensors by name."""


class Precision(NamedTuple):
    """How a weight is quantized: by which `method`, such as "GPTQ", to how many `bits`, and what shares a scale.

    `sharing` completes "4 bits …", such as "in groups of 128".
    """

    method: str
    bits: int
    sharing: str


@dataclass(frozen=True)
class QuantizedWeight:
    """A tensor that a checkpoint holds quantized, in `parts`, which are no tensors of their own.

    `name` and `shape` are those it would have in a checkpoint of floats. `dtype` names the format of the rows: F32,
    F16, BF16, or a type of GGUF that holds just the same numbers. `reader` checks what can be checked without reading
    weights, and returns the reader of rows; it raises ModelFileError. `held` are bytes, as in `Source`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[StoredTensor, ...]
    precision: Precision
    reader: Callable[[], RowReader] = field(repr=False)
    held: int = 0

    @property
    def file(self) -> Path:
        """The file of the first part, which errors name."""
        return self.parts[0].file


Finder = Callable[[Tensors], Iterator[QuantizedWeight]]
"""Finds the quantized weights among stored tensors. Raises ModelFileError for parts that do not fit each other."""


class Method(NamedTuple):
    """A method of quantization.

    `recognizes` tells whether settings are of this method; `finder` checks them and returns the finder of its weights.
    Both raise ModelFileError.
    """

    recognizes: Callable[[Settings], bool]
    finder: Callable[[Settings], Finder]
