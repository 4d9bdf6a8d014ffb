"""Hessians: the sums of xᵀx over what a model multiplies matrices by while it reads a text."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.gptq.inputs import Input
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import MatrixInput
from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, shown_path
from edgellm.model import Model
from edgellm.perplexity.windows import Windows

Floats = NDArray[np.float32]

_PANEL = 1024


class Hessian(NamedTuple):
    """The upper triangle of Σ xᵀx over `rows` rows, float32 [columns, columns]; the rest is undefined."""

    sums: Floats
    rows: int

    @property
    def importance(self) -> Floats:
        """The mean squares of the columns, float32 [columns]."""
        return self.sums.diagonal() / np.float32(self.rows)


def read_hessians(
    model: Model, windows: Windows, inputs: Sequence[Input], after_window: Callable[[NativeEngine, int], None]
) -> Iterator[tuple[Input, Hessian]]:
    """The Hessians of `inputs`, each of which may be freed when the next is asked for.

    The model was opened for the inputs of their tensors; `after_window` gets its engine and the number of windows that
    were read. Raises EdgeLLMError for NaN and numbers that are too large.
    """
    sums = [np.zeros((each.columns, each.columns), np.float32) for each in inputs]
    place = {name: i for i, each in enumerate(inputs) for name in each.names}
    rows = 0
    engine = model.engine
    assert isinstance(engine, NativeEngine)
    for done, window in enumerate(windows, 1):
        sequence = engine.new_sequence()
        for start in range(0, len(window), engine.max_rows):
            part = window[start : start + engine.max_rows]
            rows += len(part)
            for given in engine.compute([Segment(sequence, part, ())]).inputs:
                _add(sums[next(place[name] for name in given.names if name in place)], given)
        after_window(engine, done)
    for each in inputs:
        total = sums.pop(0)
        if not np.isfinite(total.diagonal()).all():
            where = f"{shown_path(model.file.path)}: tensor {printable(each.names[0])}"
            raise EdgeLLMError(f"{where} is multiplied by NaN or huge numbers; edgellm verify may tell why")
        yield each, Hessian(total, rows)


def _add(sums: Floats, given: MatrixInput) -> None:
    """Add xᵀx to the upper triangle."""
    x = given.rows
    for start in range(0, len(sums), _PANEL):
        end = min(start + _PANEL, len(sums))
        with np.errstate(over="ignore", invalid="ignore"):  # `read_hessians` refuses what is not finite
            sums[:end, start:end] += x[:, :end].T @ x[:, start:end]
