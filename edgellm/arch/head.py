"""Draft heads: small models of one layer that read hidden states of a target model, and propose its next tokens.

A head's row p is a pair: the embedding of token p + 1, and features of the target at position p.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.description import Description


@dataclass(frozen=True)
class FeatureEncoder:
    """The features f that an EAGLE-3 head reads: projection(norm(h)), of the target's taps side by side.

    `projection` is (width of the head, taps · width of the target).
    """

    norm: Norm | None
    projection: Linear


@dataclass(frozen=True)
class Head:
    """A draft head, and what it reads of its target.

    `taps` are the layers of the target whose results are the features; without any they are the state behind its last
    norm. `tokens` has the target's id of each logit, int32; None: logit i is that of token i. The features of the row
    after a draft are the head's own state: behind its last norm with `chains_normed`, else before it.
    """

    source: str
    model: Description
    taps: tuple[int, ...]
    encoder: FeatureEncoder | None
    tokens: NDArray[np.int32] | None
    chains_normed: bool
