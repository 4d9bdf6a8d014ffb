"""What a conversion will do, and what one has done."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from converters.tensors import PlannedTensor


class TensorReport(NamedTuple):
    """A tensor: its shape as numpy has it, the types it had and has, and its bytes in the new file.

    `error` is the root mean square of the errors over that of the weights, None in a plan; `note` says why it does
    not have the type that the recipe asks for.
    """

    name: str
    shape: tuple[int, ...]
    source_type: str
    type: str
    weights: int
    nbytes: int
    note: str
    error: float | None = None


@dataclass(frozen=True)
class ConversionSummary:
    """A file that was written, or would be: `nbytes` are all of its bytes."""

    path: Path
    nbytes: int
    tensors: list[TensorReport] = field(repr=False)

    @property
    def weights(self) -> int:
        """Weights of all tensors."""
        return sum(tensor.weights for tensor in self.tensors)

    @property
    def bits_per_weight(self) -> float:
        """Of the tensors' bytes; the metadata does not count."""
        return 8 * sum(tensor.nbytes for tensor in self.tensors) / max(1, self.weights)

    @property
    def notes(self) -> list[TensorReport]:
        """Tensors that did not get what the recipe asks for."""
        return [tensor for tensor in self.tensors if tensor.note]


@dataclass(frozen=True)
class ConversionPlan(ConversionSummary):
    """What a conversion would do: `memory` is the most bytes it takes, `seconds` what it computes for."""

    memory: int
    seconds: float
    threads: int


@dataclass(frozen=True)
class Report(ConversionSummary):
    """What a conversion has done, in how many seconds."""

    seconds: float

    def worst(self, n: int) -> list[TensorReport]:
        """The n tensors with the largest errors, the largest first; exact ones are left out."""
        lossy = [tensor for tensor in self.tensors if tensor.error]
        return sorted(lossy, key=lambda tensor: tensor.error or 0.0, reverse=True)[:n]


def tensor_reports(tensors: Sequence[PlannedTensor], errors: Sequence[float | None]) -> list[TensorReport]:
    """Planned tensors as they are reported, with the relative error of each, or None."""
    return [
        TensorReport(s.name, s.shape, s.type, t.type.name, s.row_count * s.columns, t.nbytes, t.note, error)
        for t, error in zip(tensors, errors, strict=True)
        for s in [t.source]
    ]
