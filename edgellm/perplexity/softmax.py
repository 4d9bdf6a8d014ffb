"""What rows of logits say about the tokens that came, and about each other. All of it is in nats."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.protocol import Logits

Scores = NDArray[np.float64]
Ids = NDArray[np.int64]


class Softmax(NamedTuple):
    """Rows of logits less the largest of their row, the exponentials of these, and the sums of those.

    float32 [rows, vocab] twice, float64 [rows]. With sums in float64, what comes out is within 1e-6 of all in float64
    (divergences, whose errors cancel, within 1e-7), in half the time.
    """

    shifted: Logits
    weights: Logits
    total: Scores

    @classmethod
    def of(cls, logits: Logits) -> "Softmax":
        """The softmax of logits [rows, vocab]."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        weights = np.exp(shifted)
        return cls(shifted, weights, weights.sum(axis=1, dtype=np.float64))

    def surprise(self, came: Ids) -> Scores:
        """The negative log probability of the token that came, for each row."""
        found: Scores = np.log(self.total) - self.shifted[np.arange(len(came)), came]
        return found

    def divergence(self, other: "Softmax") -> Scores:
        """The Kullback-Leibler divergence from the other distribution to this one, KL(self || other), of each row."""
        products = self.weights * (self.shifted - other.shifted)
        found: Scores = products.sum(axis=1, dtype=np.float64) / self.total - np.log(self.total / other.total)
        return found


def surprise(logits: Logits, came: Ids) -> Scores:
    """The surprise at the tokens that came: [1, rows]. NaN or infinite where the logits are no healthy numbers."""
    with np.errstate(all="ignore"):
        return Softmax.of(logits).surprise(came)[None]


def distance(logits: Logits, reference: Logits, came: Ids) -> Scores:
    """Surprise, the reference's surprise, divergence from the reference, 1 where both have the same top: [4, rows]."""
    with np.errstate(all="ignore"):
        ours, theirs = Softmax.of(logits), Softmax.of(reference)
        same_top = logits.argmax(axis=1) == reference.argmax(axis=1)
        return np.stack([ours.surprise(came), theirs.surprise(came), theirs.divergence(ours), same_top])
