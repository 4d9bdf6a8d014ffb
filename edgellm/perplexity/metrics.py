"""Metrics of rows of logits: negative log-likelihood and KL divergence, in nats."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.protocol import Logits

Values = NDArray[np.float64]
Ids = NDArray[np.int64]


class Softmax(NamedTuple):
    """The softmax of rows of logits, not normalized.

    `shifted`: logits minus the row's maximum, float32 [rows, vocab]. `weights`: exp(shifted), float32 [rows, vocab].
    `total`: the sums of the weights, float64 [rows]. With these types results are within 1e-6 of float64 throughout
    (divergences, whose errors cancel, within 1e-7), in half the time.
    """

    shifted: Logits
    weights: Logits
    total: Values

    @classmethod
    def of(cls, logits: Logits) -> "Softmax":
        """The softmax of logits [rows, vocab]."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        weights = np.exp(shifted)
        return cls(shifted, weights, weights.sum(axis=1, dtype=np.float64))

    def negative_log_likelihood(self, targets: Ids) -> Values:
        """-log p(target) of each row."""
        found: Values = np.log(self.total) - self.shifted[np.arange(len(targets)), targets]
        return found

    def kl_divergence(self, other: "Softmax") -> Values:
        """The Kullback-Leibler divergence KL(self || other) of each row."""
        products = self.weights * (self.shifted - other.shifted)
        found: Values = products.sum(axis=1, dtype=np.float64) / self.total - np.log(self.total / other.total)
        return found


def negative_log_likelihood(logits: Logits, targets: Ids) -> Values:
    """The negative log-likelihood of the target tokens, [1, rows]. NaN or infinite if the logits are."""
    with np.errstate(all="ignore"):
        return Softmax.of(logits).negative_log_likelihood(targets)[None]


def compared(logits: Logits, reference_logits: Logits, targets: Ids) -> Values:
    """[4, rows]: negative log-likelihood, that of the reference, KL(reference || model), 1 if the top tokens agree."""
    with np.errstate(all="ignore"):
        model, reference = Softmax.of(logits), Softmax.of(reference_logits)
        same_top = logits.argmax(axis=1) == reference_logits.argmax(axis=1)
        nlls = model.negative_log_likelihood(targets), reference.negative_log_likelihood(targets)
        return np.stack([*nlls, reference.kl_divergence(model), same_top])
