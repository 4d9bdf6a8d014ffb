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
