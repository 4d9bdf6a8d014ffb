"""Heads that draft: small models that read features of a target model beside tokens, and guess what follows.

A head reads pairs (f_p, x_p+1): the features f of the target at position p, and the token behind it. What it gives for
a pair guesses the token at p + 2. It goes on from its own guess: its state takes the place of the target's features.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.description import Description

HeadSource = Literal["mtp", "eagle", "assistant"]


@dataclass(frozen=True)
class PairEntry:
    """How a head's x is made of the embedding e of a token and a row f of features, which is as wide.

    The pair is [norm(e) | norm(f)]; `norms` has a weight for each, float32 (2, width), or is None where neither is
    normed. With `projection`, x is projection(pair). Without, e and f are as wide as the head, x is f, or norm(f) with
    `normed_residual`, and the first layer's q, k and v read the pair.
    """

    norms: Norm | None
    projection: Linear | None
    normed_residual: bool = False

    @property
    def feature_norm(self) -> Norm:
        """The norm of f."""
        assert self.norms and self.norms.weight
        return replace(self.norms, weight=self.norms.weight.matrix(1))


def pair_norms(of_embedding: Norm, of_features: Norm) -> Norm:
    """Two norms of equally many values as one with a weight for each: float32 (2, width)."""
    first, second = of_embedding.weight, of_features.weight
    assert first and second and of_embedding.eps == of_features.eps
    data = np.concatenate([first.data, second.data])
    return replace(of_embedding, weight=replace(first, shape=(2, *first.shape), data=data))


@dataclass(frozen=True)
class FeatureEncoder:
    """The features of EAGLE-3: projection(norm(taps)) of the target's hidden states behind some layers, side by side.

    The projection is (width of the head, taps · width of the target).
    """

    norm: Norm | None
    projection: Linear


@dataclass(frozen=True)
class Head:
    """A head of a target model. `model` has an entry, and layers whose attention sees all cells, or the target's.

    Features are the target's states behind the layers `taps`, side by side and encoded by `encoder`; without taps the
    state behind its last norm. `tokens` are the target's ids of the head's logits, int32, or None where it has one for
    each token. With `chains_normed` the next row's features are the head's state behind its last norm, and behind
    `model.feedback`, if there is one; else before the norm.
    """

    source: HeadSource
    model: Description
    taps: tuple[int, ...] = ()
    encoder: FeatureEncoder | None = None
    tokens: NDArray[np.int32] | None = None
    chains_normed: bool = True
