"""What a forward pass gives: logits, hidden states, and hidden states behind some layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.errors import EdgeLLMError

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class OutputSettings:
    """What an engine gives for a batch, chosen when it is opened.

    `logits`: the logits of wanted rows. `hidden`: the hidden state of wanted rows behind the last norm, which the
    output matrix reads; `all_hidden` that of all rows; `residual` that of wanted rows before the last norm. `taps`: the
    layers behind which the hidden state of all rows is given. `squares`: the sums of
    squares of what each matrix is multiplied by (`InputSquares`), which a GPU does not have. `inputs`: the names of
    tensors of which all rows that they are multiplied by are given (`MatrixInput`), which a GPU does not have either.
    """

    logits: bool = True
    hidden: bool = False
    taps: frozenset[int] = field(default_factory=frozenset)
    squares: bool = False
    inputs: frozenset[str] = field(default_factory=frozenset)
    all_hidden: bool = False
    residual: bool = False

    @property
    def observes(self) -> bool:
        """Whether what matrices are multiplied by is needed as float32, of all rows."""
        return self.squares or bool(self.inputs)

    @property
    def gives_inputs_alone(self) -> bool:
        """Whether nothing behind the last of `inputs` needs to be computed."""
        states = self.hidden or self.all_hidden or self.residual or self.taps
        return bool(self.inputs) and not (self.logits or states or self.squares)

    @property
    def needs_cpu_head(self) -> bool:
        """Whether the CPU must compute the output head, as that of a GPU gives logits alone."""
        return self.hidden or self.all_hidden or self.residual or not self.logits

    def check(self, layers: int) -> None:
        """Raise EdgeLLMError for a tap at a layer that the model, of `layers` layers, does not have."""
        missing = sorted(self.taps - set(range(layers)))
        if missing:
            raise EdgeLLMError(f"there is no layer {missing[0]} to tap: the model has layers 0 to {layers - 1}")


LOGITS = OutputSettings()
"""Logits alone."""


class MatrixInput(NamedTuple):
    """What the tensors `names` are multiplied by, float32 [rows, columns]."""

    names: tuple[str, ...]
    rows: Floats


class Outputs(NamedTuple):
    """The results of a batch; what the settings do not ask for is None or empty.

    `logits` is [wanted rows, vocab], `hidden` and `residual` [wanted rows, width], `all_hidden` and `taps` by layer
    [rows, width]. `inputs` are in the order of the layers; a tensor that is used in two places has two.
    """

    logits: Floats | None
    hidden: Floats | None
    taps: Mapping[int, Floats]
    inputs: Sequence[MatrixInput] = ()
    all_hidden: Floats | None = None
    residual: Floats | None = None


class InputSquares(NamedTuple):
    """Sums over rows of the squares of what the tensors `names` are multiplied by, which is the same for all of them.

    `sums` is float64 [matrices, columns], `counts` int64: the number of rows of each matrix for a stack of experts, [1]
    for other tensors. A matrix for each head counts as one tensor, whose heads read the same rows.
    """

    names: tuple[str, ...]
    sums: NDArray[np.float64]
    counts: NDArray[np.int64]
