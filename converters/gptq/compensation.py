"""What is needed to compensate errors: the text, a model that can read it, and the matrices."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from converters.gptq.code_layouts import CODE_LAYOUTS
from converters.gptq.inputs import Input, can_be_compensated, inputs_of, passes
from converters.tensors import Metadata, MetadataValue, PlannedTensor
from edgellm.arch.description import Description
from edgellm.errors import OptionError
from edgellm.system.machine import available_memory
from edgellm.system.text_input import decode_input, input_error, read_input

_SHARE_OF_MEMORY = 4
"""Hessians take at most 1 / _SHARE_OF_MEMORY of the free memory."""


class ReadingProgress(NamedTuple):
    """`chunks` of `of` chunks of the text are read, in pass `number` of `passes` passes over it, from 1 on."""

    number: int
    passes: int
    chunks: int
    of: int


ReportReading = Callable[[ReadingProgress], None]

FloatModel = Callable[[], AbstractContextManager[Path]]
"""Gives a model file that can be run, with the tensors of the conversion; it lives as long as the context."""


class Calibration(NamedTuple):
    """A text that a model reads, the name of the text, and the model."""

    text: str
    dataset: str
    model: FloatModel

    def metadata(self) -> Metadata:
        """What the new file says of it."""
        return {"quantize.gptq.dataset": MetadataValue("str", self.dataset)}


def read_calibration(path: str | os.PathLike[str], model: FloatModel) -> Calibration:
    """The text of a file, for a model. Raises EdgeLLMError for a file that cannot be read, or is no text."""
    name = os.fspath(path)
    text = decode_input(read_input(name), name, "give a part of it")
    if not text.strip():
        raise input_error(name, "is empty; give a text")
    return Calibration(text, name, model)


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
    tensors: Sequence[PlannedTensor], model: Description, calibration: Calibration, measures: bool
) -> Compensation:
    """The compensation of all tensors of a conversion that can be. Raises OptionError if there is none."""
    inputs = inputs_of(model, [tensor.source.name for tensor in tensors if can_be_compensated(tensor)])
    if not inputs:
        formats = ", ".join(CODE_LAYOUTS)
        raise OptionError(f"option gptq finds no matrix to work on: no float matrix becomes one of {formats}")
    return Compensation(calibration, inputs, measures)
