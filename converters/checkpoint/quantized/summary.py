"""How the weights of a checkpoint are quantized, in words."""

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from converters.checkpoint.quantized.weight import Precision, QuantizedWeight
from kquants import FLOAT_FORMATS

_NAMED = 3
"""Precisions that are named; there are more where each layer has its own."""


class QuantizationSummary(NamedTuple):
    """How weights are quantized: `words`, such as "GPTQ at 4 bits in groups of 128", and the bits of most of them."""

    words: str
    bits: int


def summary_of(weights: Iterable[QuantizedWeight]) -> QuantizationSummary | None:
    """The summary of those of `weights` that are converted from floats; None if there are none."""
    counts = Counter[Precision]()
    for weight in weights:
        if weight.dtype in FLOAT_FORMATS:
            counts[weight.precision] += prod(weight.shape)
    if not counts:
        return None
    precisions = [precision for precision, _ in counts.most_common()]
    words = [
        _words(precision, before) for precision, before in zip(precisions[:_NAMED], [None, *precisions], strict=False)
    ]
    if len(precisions) > _NAMED:
        words.append("…")
    return QuantizationSummary(", ".join(words), precisions[0].bits)


def _words(precision: Precision, before: Precision | None) -> str:
    """A precision in words, without the method if it is that of the one before."""
    words = f"{precision.bits} bits {precision.sharing}"
    return words if before and before.method == precision.method else f"{precision.method} at {words}"
