"""Checking that edgellm can open the new file, by the same checks as when it opens it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from converters.header import GGUFLayout
from converters.report import PredictionLayers
from converters.tensors import PlannedTensor, Source
from edgellm.arch import describe, head_kind
from edgellm.arch.description import Description
from edgellm.arch.head_files import read_head
from edgellm.arch.prediction import prediction_layers, prediction_tensors
from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.fmt import shown_path
from edgellm.gguf import GGUFFile
from edgellm.gguf.header_only import HeaderOnlyFile
from edgellm.text.tokenizer import Tokenizer

_READ_AT_OPEN = re.compile(r"rope_freqs\.weight|rope_factors_(long|short)\.weight|blk\.\d+\.layer_output_scale\.weight")
_ADVICE = re.compile(r"; get another conversion.*")
_CHOOSE = "; choose "


class LoadableModel(NamedTuple):
    """A model that edgellm can run; `prediction` is None without layers for multi-token prediction."""

    description: Description
    tokenizer: Tokenizer
    prediction: PredictionLayers | None

    @classmethod
    def of(cls, file: GGUFFile) -> Self:
        """The model in a file. Raises ModelFileError and UnsupportedModelError."""
        model, prediction = describe(file), None
        if tensors := prediction_tensors(file):
            nbytes = sum(tensor.nbytes for tensor in tensors.values())
            prediction = PredictionLayers(prediction_layers(file), nbytes, head_kind(file, model) is not None)
        return cls(model, Tokenizer(file), prediction)


def find_loadable(file: GGUFFile) -> LoadableModel | None:
    """The model in a file, None if edgellm cannot run it: other files can be quantized, too, for use with llama.cpp."""
    try:
        return LoadableModel.of(file)
    except (ModelFileError, UnsupportedModelError):
        return None


def check_loadable(layout: GGUFLayout, tensors: Sequence[PlannedTensor], target: Path, source: str) -> LoadableModel:
    """The model that the new file will have.

    Raises ModelFileError or UnsupportedModelError, naming `source`, if edgellm could not open the file.
    """
    with _header_only(layout, tensors, target, source) as file:
        return LoadableModel.of(file)


def check_loadable_head(
    layout: GGUFLayout, tensors: Sequence[PlannedTensor], target: Path, source: str, model: Description
) -> None:
    """As `check_loadable`, for the file of a draft head that drafts for `model`."""
    with _header_only(layout, tensors, target, source) as file:
        read_head(file, model)
        Tokenizer(file)


@contextmanager
def _header_only(
    layout: GGUFLayout, tensors: Sequence[PlannedTensor], target: Path, source: str
) -> Iterator[HeaderOnlyFile]:
    """The new file without weights but for `_READ_AT_OPEN`; errors of opening it name `source`."""
    known = {t.source.name: _read(t.source) for t in tensors if _is_known(t)}
    try:
        with HeaderOnlyFile(layout.header, layout.nbytes, target, known) as file:
            yield file
    except (ModelFileError, UnsupportedModelError) as error:
        reason = _ADVICE.sub("", str(error).removeprefix(f"{shown_path(target)}: "))
        advice = "" if _CHOOSE in reason else "; correct config.json, or get another copy"
        raise type(error)(f"{source}: edgellm would not open the GGUF file of it: {reason}{advice}") from None


def _is_known(tensor: PlannedTensor) -> bool:
    if tensor.source.name == "d2t":
        return True
    is_read = _READ_AT_OPEN.fullmatch(tensor.source.name) is not None
    return is_read and tensor.type.name == "F32" and tensor.source.type in ("F32", "F16", "BF16")


def _read(source: Source) -> NDArray[np.uint8]:
    """All values of a small tensor as the bytes of float32, or of I64, 1-D."""
    data = source.rows(0, source.row_count).reshape(-1)
    match source.type:
        case "F16":
            return data.view("<f2").astype("<f4").view(np.uint8)
        case "BF16":
            return (data.view("<u2").astype("<u4") << 16).view(np.uint8)
        case _:
            return data
