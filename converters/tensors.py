"""Tensors to read, the type each gets in the GGUF file, and metadata values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kquants.ggml import GGMLType

RowReader = Callable[[int, int], NDArray[np.uint8]]
"""`rows(first, last)`: bytes uint8 [last - first, row_bytes] of rows first … last - 1. Thread-safe.

Raises EdgeLLMError if they cannot be read.
"""


@dataclass(frozen=True)
class StoredBlocks:
    """The rows of one matrix or several, stored in blocks of a type of GGUF, which the file may keep.

    `factors` has a number for each matrix, by which the weights of its blocks are multiplied; () where there is none.
    """

    type: str
    rows: RowReader
    factors: tuple[float, ...] = ()


@dataclass(frozen=True)
class ExactRows:
    """A reader of floats that some types of GGUF hold exactly. What is made of its rows is no such reader by itself.

    `blocks(type)` gives a reader of the rows in a type, None if that does not hold the same numbers. Where the floats
    are those of blocks of GGUF, these are `stored`.
    """

    floats: RowReader
    blocks: Callable[[str], RowReader | None]
    stored: StoredBlocks | None = None

    def __call__(self, first: int, last: int) -> NDArray[np.uint8]:
        """Rows of floats, as `RowReader`."""
        return self.floats(first, last)


def moved_rows(readers: Sequence[RowReader], move: Callable[[Sequence[RowReader]], RowReader]) -> RowReader:
    """`move(readers)`, a reader of whole rows in other places, which are the same in any type."""
    exact = [each for each in readers if isinstance(each, ExactRows)]
    floats = move(readers)
    if len(exact) < len(readers):
        return floats

    def blocks(kind: str) -> RowReader | None:
        found = [each.blocks(kind) for each in exact]
        whole = [each for each in found if each is not None]
        return move(whole) if len(whole) == len(found) else None

    return ExactRows(floats, blocks, _moved_blocks([each.stored for each in exact], move))


def _moved_blocks(
    parts: Sequence[StoredBlocks | None], move: Callable[[Sequence[RowReader]], RowReader]
) -> StoredBlocks | None:
    """The blocks of matrices that are moved; None if they are not all of one type, or if one part has many factors."""
    whole = [each for each in parts if each is not None and len(each.factors) <= 1]
    if len(whole) < len(parts) or len({(each.type, len(each.factors)) for each in whole}) > 1:
        return None
    factors = tuple(factor for each in whole for factor in each.factors)
    return StoredBlocks(whole[0].type, move([each.rows for each in whole]), factors)


@dataclass(frozen=True)
class Source:
    """A tensor to read.

    `name` is its GGUF name; `shape` is in numpy order, outermost first; `type` names the format of the bytes that
    `rows` returns, one of `kquants.FORMATS`. All dimensions but the last count as rows. `held` are the bytes that
    reading keeps in memory besides the rows.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    rows: RowReader
    held: int = 0

    @property
    def columns(self) -> int:
        """Weights in a row."""
        return self.shape[-1]

    @property
    def row_count(self) -> int:
        """Number of rows: the product of all dimensions but the last."""
        return prod(self.shape[:-1])


def exact_source(source: Source, kind: str) -> Source:
    """The source in the type `kind` where that holds the same numbers; otherwise as it is. Raises as its reader."""
    rows = source.rows.blocks(kind) if isinstance(source.rows, ExactRows) else None
    return replace(source, type=kind, rows=rows) if rows else source


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor and its new type; `note` gives the reason if that differs from the type in the quantization mix.

    `importance`, float32 [matrices, columns], weights the errors of the columns of each matrix, if it is known. With
    `compensated`, columns make good for the errors of earlier ones, as `passed_on` says (`converters.gptq`); it is not
    known before the conversion runs.
    """

    source: Source
    type: GGMLType
    note: str = ""
    importance: NDArray[np.float32] | None = None
    compensated: bool = False
    passed_on: NDArray[np.float32] | None = None

    @property
    def weights(self) -> int:
        """Number of weights."""
        return self.source.row_count * self.source.columns

    @property
    def nbytes(self) -> int:
        """Bytes in the GGUF file, without padding."""
        return self.source.row_count * self.type.row_bytes(self.source.columns)


class MetadataValue(NamedTuple):
    """A metadata value with its GGUF type.

    `kind` is one of "u8 i8 u16 i16 u32 i32 f32 bool str u64 i64 f64"; arrays are lists (or numpy arrays) of it.
    """

    kind: str
    value: object


Metadata = Mapping[str, MetadataValue]
"""The key-value pairs of a GGUF file, in the order in which they are written."""
