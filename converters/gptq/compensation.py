"""What is needed to compensate errors: the text, a model that can read it, and the matrices."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from converters.gptq.code_layouts import CODE_LAYOUTS
from converters.gptq.inputs import Input, can_be_compensated, inputs_of, passes
from converters.importance.apply import check_needed_importance
from converters.loadable import LoadableModel
from converters.tensors import Metadata, MetadataValue, PlannedTensor
from edgellm.arch.description import tensors_in
from edgellm.errors import OptionError
from edgellm.fmt import counted
from edgellm.perplexity.windows import DEFAULT_CTX
from edgellm.system.machine import available_memory
from edgellm.system.text_input import decode_text_file, input_error, read_input
from kquants.jit import Progress

_SHARE_OF_MEMORY = 4
"""Hessians take at most 1 / _SHARE_OF_MEMORY of the free memory."""


class ReadingProgress(NamedTuple):
    """`chunks` of `of` chunks of the text are read, in pass `number` of `passes` passes over it, from 1 on."""

    number: int
    passes: int
    chunks: int
    of: int


ReportReading = Callable[[ReadingProgress], None]

FloatModel = Callable[[Progress | None], AbstractContextManager[Path]]
"""Gives a model file that can be run, with the tensors of the conversion; it lives as long as the context.

Called with what shows the progress of compiling.
"""


class Calibration(NamedTuple):
    """A text that a model reads, the name of the text, and the model."""

    text: str
    dataset: str
    model: FloatModel

    def metadata(self) -> Metadata:
        """What the new file says of it."""
        return {"quantize.gptq.dataset": MetadataValue("str", self.dataset)}

    def check(self, model: LoadableModel) -> None:
        """Raise EdgeLLMError for a text that is too short for a model."""
        check_length(self.text, self.dataset, model)


def check_length(text: str, name: str, model: LoadableModel) -> None:
    """Raise EdgeLLMError, with the name of the text, if it has less than two of the chunks that a model reads."""
    tokens = len(model.tokenizer.encode(text, add_special=True))
    needed = 2 * min(DEFAULT_CTX, model.description.context_length)
    if tokens < needed:
        raise input_error(
            name, f"has {counted(tokens, 'token')}, and at least {needed:,} are needed; give a longer text"
        )


def read_calibration(path: str | os.PathLike[str], model: FloatModel) -> Calibration:
    """The text of a file, for a model. Raises EdgeLLMError as `read_text`."""
    return Calibration(read_text(path), os.fspath(path), model)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file. Raises EdgeLLMError for a file that cannot be read, or is no text."""
    name = os.fspath(path)
    return decode_text_file(read_input(name), name)


@dataclass(frozen=True)
class Compensation:
    """What is read, and `inputs`, those of the matrices to compensate. With `measures`, all other matrices get their
    importance from the text, too."""

    calibration: Calibration
    inputs: Sequence[Input] = field(repr=False)
    measures: bool

    @property
    def names(self) -> frozenset[str]:
        """The tensors that are compensated."""
        return frozenset(name for each in self.inputs for name in each.names)

    @property
    def passes(self) -> list[list[Input]]:
        """The inputs of each pass over the text, with the memory that is free now."""
        return list(passes(self.inputs, available_memory() // _SHARE_OF_MEMORY))

    @property
    def memory(self) -> int:
        """Bytes of Hessians, at most."""
        return max((sum(each.hessian_bytes for each in group) for group in self.passes), default=0)


def compensation(
    tensors: Sequence[PlannedTensor], model: LoadableModel, calibration: Calibration, measures: bool
) -> Compensation:
    """The compensation of all tensors of a conversion that can be.

    Raises OptionError if there is none, and with `measures` for a tensor that needs importance and is not used by the
    model, EdgeLLMError for a text that is too short.
    """
    inputs = inputs_of(model.description, [tensor.source.name for tensor in tensors if can_be_compensated(tensor)])
    if not inputs:
        formats = ", ".join(CODE_LAYOUTS)
        raise OptionError(f"option gptq finds no matrix to work on: no float matrix becomes one of {formats}")
    if measures:
        used = {tensor.stored_name for tensor in tensors_in(model.description)}
        check_needed_importance([tensor for tensor in tensors if tensor.source.name not in used], None)
    calibration.check(model)
    return Compensation(calibration, inputs, measures)
