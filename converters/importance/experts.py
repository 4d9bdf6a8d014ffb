"""Experts that saw too few tokens: their mean squares are less certain than those of others."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from edgellm.fmt import counted
from edgellm.gguf.imatrix import Imatrix

ENOUGH_TOKENS = 64
"""Tokens from which on an expert's mean squares are near enough: of n normal values, the mean of the squares has a
standard error of √(2 / n), 18 % of it."""

_BLOCK = re.compile(r"blk\.(\d{1,9})\.")
_SHOWN = 4


class ExpertCount(NamedTuple):
    """The number of tokens that an expert of a layer saw."""

    layer: int
    expert: int
    tokens: int


def expert_counts(imatrix: Imatrix) -> list[ExpertCount]:
    """The experts of all layers, those with the fewest tokens first; for each the least of its tensors."""
    least: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    for name, entry in imatrix.entries.items():
        if (block := _BLOCK.match(name)) and len(entry.counts) > 1:
            layer, counts = int(block[1]), entry.counts
            fits = layer in least and len(least[layer]) == len(counts)
            least[layer] = np.minimum(least[layer], counts) if fits else counts
    found = [ExpertCount(layer, i, int(n)) for layer, counts in least.items() for i, n in enumerate(counts)]
    return sorted(found, key=lambda each: (each.tokens, each.layer, each.expert))


def few_tokens_warnings(imatrix: Imatrix, advice: str) -> Iterator[str]:
    """A line, which ends with `advice`, if there are experts that saw too few tokens."""
    few = [each for each in expert_counts(imatrix) if each.tokens < ENOUGH_TOKENS]
    if few:
        shown = ", ".join(f"expert {each.expert} of layer {each.layer} ({each.tokens})" for each in few[:_SHOWN])
        more = f" and {len(few) - _SHOWN:,} more" if len(few) > _SHOWN else ""
        what = f"{counted(len(few), 'expert')} saw fewer than {ENOUGH_TOKENS} tokens: {shown}{more}"
        yield f"{what}; {advice}"
