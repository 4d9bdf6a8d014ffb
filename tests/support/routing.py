"""What routers of experts choose, by their formulas in float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Routing:
    """A router; see `kquants.records.RouteOp`."""

    used: int
    sigmoid: bool = False
    sparse_mixer: bool = False
    normalized: bool = False
    groups: int = 1
    used_groups: int = 1
    group_scores: int = 2
    logit_scale: float = 1.0
    scale: float = 1.0

    def scores(self, logits: Array) -> Array:
        """Of each expert, float64 [rows, experts]."""
        z = logits.astype(np.float64) * self.logit_scale
        if self.sigmoid:
            return 1 / (1 + np.exp(-z))
        powers = np.exp(z - z.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def of(self, logits: Array, bias: Array | None = None, factors: Array | None = None) -> tuple[Array, Array]:
        """The experts of each row, best first, and their weights."""
        if self.sparse_mixer:
            return self._sparse_mixer(logits)
        scores = self.scores(logits)
        keys = scores + (0 if bias is None else bias)
        if self.used_groups < self.groups:
            grouped = keys.reshape(len(keys), self.groups, -1)
            of_groups = np.sort(grouped, axis=2)[:, :, -self.group_scores :].sum(axis=2)
            best = np.argsort(-of_groups, axis=1, kind="stable")[:, : self.used_groups]
            inside = (np.arange(self.groups) == best[:, :, None]).any(axis=1)
            keys = np.where(inside.repeat(grouped.shape[2], axis=1), keys, -np.inf)
        chosen = np.argsort(-keys, axis=1, kind="stable")[:, : self.used]
        weights = np.take_along_axis(scores, chosen, axis=1)
        if self.normalized:
            weights /= weights.sum(axis=1, keepdims=True)
        return chosen, weights * self.scale * (1 if factors is None else factors[chosen])

    def _sparse_mixer(self, logits: Array) -> tuple[Array, Array]:
        """As `sparsemixer` of modeling_phimoe.py, which has it for two experts, with a jitter of 0.01."""
        original = logits.astype(np.float64) * self.logit_scale
        rows, left = np.arange(len(logits)), original.copy()
        chosen, weights = [], []
        for _ in range(self.used):
            best, largest = left.argmax(axis=1), left.max(axis=1, keepdims=True)
            far = (largest - original) / np.maximum(np.abs(original), largest) > 2 * 0.01
            powers = np.exp(np.where(far, -np.inf, left) - largest)
            chosen.append(best)
            weights.append(1 / powers.sum(axis=1))
            left[rows, best] = -np.inf
        return np.stack(chosen, axis=1), np.stack(weights, axis=1) * self.scale
