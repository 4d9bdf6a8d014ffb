"""The plan of a conversion, and its report."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from converters.tensors import PlannedTensor
from kquants import FLOAT_FORMATS


class TensorReport(NamedTuple):
    """A tensor in the new file: shape in numpy order, source and new type, weights, bytes.

    `error` is the RMS error relative to the RMS of the weights, None in a plan; `note` gives the reason if the type
    differs from the one in the quantization mix. `lacks_importance`: the importance matrix that was given has nothing
    of the tensor. `compensated`: later columns make good for errors of earlier ones.
    """

    name: str
    shape: tuple[int, ...]
    source_type: str
    type: str
    weights: int
    nbytes: int
    note: str
    error: float | None = None
    lacks_importance: bool = False
    compensated: bool = False

    @property
    def quantized(self) -> bool:
        """Whether the tensor has a quantized type that it did not have before."""
        return self.type not in FLOAT_FORMATS and self.type != self.source_type


class PredictionLayers(NamedTuple):
    """Layers for multi-token prediction: how many, their bytes, and whether the first can draft for the model."""

    layers: int
    nbytes: int
    drafts: bool


@dataclass(frozen=True)
class ConversionSummary:
    """The file that was written, or would be: its path, its size in bytes, its tensors.

    `source_note` says what limits the quality of the file beyond its types, "" if nothing does. `prediction` is None
    for a file without layers for multi-token prediction, and for a model that edgellm does not run.
    """

    path: Path
    nbytes: int
    tensors: list[TensorReport] = field(repr=False)
    source_note: str
    prediction: PredictionLayers | None

    @property
    def weights(self) -> int:
        """Number of weights in all tensors."""
        return sum(tensor.weights for tensor in self.tensors)

    @property
    def bits_per_weight(self) -> float:
        """Bits per weight over all tensors, without metadata."""
        return 8 * sum(tensor.nbytes for tensor in self.tensors) / max(1, self.weights)

    @property
    def notes(self) -> list[TensorReport]:
        """Tensors whose type differs from the one in the quantization mix."""
        return [tensor for tensor in self.tensors if tensor.note]

    @property
    def without_importance(self) -> list[TensorReport]:
        """Tensors of which the importance matrix, if one was given, has nothing."""
        return [tensor for tensor in self.tensors if tensor.lacks_importance]


@dataclass(frozen=True)
class ConversionPlan(ConversionSummary):
    """What a conversion would do: estimated peak memory in bytes, and seconds of computing with `threads`."""

    memory: int
    seconds: float
    threads: int


@dataclass(frozen=True)
class Report(ConversionSummary):
    """What a conversion did; `seconds` is its duration, that of measuring tensors for their types included."""

    seconds: float

    def worst(self, n: int) -> list[TensorReport]:
        """The n tensors with the largest errors, largest first, without exact ones."""
        lossy = [tensor for tensor in self.tensors if tensor.error]
        return sorted(lossy, key=lambda tensor: tensor.error or 0.0, reverse=True)[:n]


def tensor_reports(
    tensors: Sequence[PlannedTensor], errors: Sequence[float | None], lacking: Collection[str] = ()
) -> list[TensorReport]:
    """A report for each tensor, with its relative error or None; `lacking` are names of tensors without importance."""
    return [
        TensorReport(
            s.name, s.shape, s.type, t.type.name, t.weights, t.nbytes, t.note, error, s.name in lacking, t.compensated
        )
        for t, error in zip(tensors, errors, strict=True)
        for s in [t.source]
    ]
