"""The importance of the columns of each tensor of a conversion, from an importance matrix."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from converters.row_converter import is_copied
from converters.tensors import Metadata, MetadataValue, PlannedTensor, Source
from edgellm.errors import ModelFileError, OptionError
from edgellm.fmt import printable, shown_path
from edgellm.gguf.imatrix import Imatrix
from kquants import FLOAT_FORMATS

_LEAVE_NO_CHOICE = (*FLOAT_FORMATS, "Q8_0")
"""Types whose encoders have nothing to weigh: a weight alone, or the largest of a block, decides."""

_NEED_IMPORTANCE = ("IQ3_XXS", "IQ2_XS")
"""Types that llama.cpp, too, makes of no matrix whose importance is unknown, but for embeddings and the output."""

_NEED_NONE = ("token_embd.weight", "per_layer_token_embd.weight", "output.weight")


def is_weighted(tensor: PlannedTensor) -> bool:
    """Whether the importance of columns can change the bytes of a tensor."""
    return not is_copied(tensor) and tensor.type.name not in _LEAVE_NO_CHOICE


def with_importance(tensors: Sequence[PlannedTensor], imatrix: Imatrix) -> list[PlannedTensor]:
    """The tensors with the importance of their columns, where the matrix has it and it matters.

    Raises ModelFileError for an entry that does not fit its tensor, and for a matrix that has none of the tensors.
    """
    found = [_with_importance(tensor, imatrix) if is_weighted(tensor) else tensor for tensor in tensors]
    weighted = [tensor for tensor in found if is_weighted(tensor)]
    if weighted and all(tensor.importance is None for tensor in weighted):
        _fail(imatrix, f"has no tensor of this model, such as {printable(weighted[0].source.name)}")
    return found


def check_needed_importance(tensors: Sequence[PlannedTensor], imatrix: Imatrix | None) -> None:
    """Raise OptionError for a matrix of a type that needs importance, and without any."""
    for tensor in tensors:
        is_needed = tensor.type.name in _NEED_IMPORTANCE and tensor.source.name not in _NEED_NONE
        if is_needed and is_weighted(tensor) and tensor.importance is None:
            what = f"{printable(tensor.source.name)} cannot become {tensor.type.name} without its importance"
            if imatrix:
                raise OptionError(f"{what}, of which {shown_path(imatrix.path)} has nothing; choose another type")
            raise OptionError(f"{what}; give --imatrix FILE, which `edgellm imatrix` makes, or choose another type")


def _with_importance(tensor: PlannedTensor, imatrix: Imatrix) -> PlannedTensor:
    entry = imatrix.entries.get(tensor.source.name)
    return tensor if entry is None else replace(tensor, importance=_fitting(tensor.source, entry.means(), imatrix))


def _fitting(source: Source, means: NDArray[np.float32], imatrix: Imatrix) -> NDArray[np.float32]:
    """Means as float32 [matrices, columns] of a tensor."""
    matrices = prod(source.shape[:-2])
    if means.size != matrices * source.columns:
        of = f"{matrices} matrices of {source.columns} columns" if matrices > 1 else f"{source.columns} columns"
        _fail(imatrix, f"tensor {printable(source.name)} has {means.size} values for {of}")
    return means.reshape(matrices, source.columns)


def _fail(imatrix: Imatrix, problem: str) -> NoReturn:
    advice = "give one of the same model, such as `edgellm imatrix` makes"
    raise ModelFileError(f"{shown_path(imatrix.path)}: {problem}; {advice}")


def imatrix_metadata(imatrix: Imatrix) -> Metadata:
    """What the new file says of the matrix, as llama.cpp's."""
    known = {"file": MetadataValue("str", str(imatrix.path))}
    if imatrix.datasets:
        known["dataset"] = MetadataValue("str", imatrix.datasets[0])
    known["entries_count"] = MetadataValue("u32", len(imatrix.entries))
    if imatrix.chunks:
        known["chunks_count"] = MetadataValue("u32", imatrix.chunks)
    return {f"quantize.imatrix.{name}": value for name, value in known.items()}
