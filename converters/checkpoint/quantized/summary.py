"""How the weights of a checkpoint are quantized, in words."""

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from converters.checkpoint.quantized.weight import Grid, QuantizedWeight
from kquants import FLOAT_FORMATS

_NAMED = 3
"""Grids that are named; there are more where each layer has its own."""


class QuantizationSummary(NamedTuple):
    """How weights are quantized: `words`, such as "GPTQ at 4 bits in groups of 128", and the bits of most of them."""

    words: str
    bits: int


def summary_of(weights: Iterable[QuantizedWeight]) -> QuantizationSummary | None:
    """The summary of those of `weights` that are converted from floats; None if there are none."""
    counts = Counter[Grid]()
    for weight in weights:
        if weight.dtype in FLOAT_FORMATS:
            counts[weight.grid] += prod(weight.shape)
    if not counts:
        return None
    grids = [grid for grid, _ in counts.most_common()]
    words = [_words(grid, before) for grid, before in zip(grids[:_NAMED], [None, *grids], strict=False)]
    if len(grids) > _NAMED:
        words.append("…")
    return QuantizationSummary(", ".join(words), grids[0].bits)


def _words(grid: Grid, before: Grid | None) -> str:
    """A grid in words, without the method if it is that of the one before."""
    words = f"{grid.bits} bits {grid.sharing}"
    return words if before and before.method == grid.method else f"{grid.method} at {words}"
