"""How the memory of `--kv-memory`, which is for all models together, is shared among them."""

from collections.abc import Iterable

from edgellm.server.catalog import ServedModel


class KVShares:
    """GB of keys and values for each model; `total` is None without a limit.

    Each of `named` models has an equal share. Without any, a model gets half of what those that are open leave.
    """

    def __init__(self, total: float | None, named: int) -> None:
        self._total, self._named = total, named
        self._shares: dict[ServedModel, float] = {}

    def share(self, served: ServedModel, others: Iterable[ServedModel]) -> float | None:
        """The share of a model that is opened while `others` are open."""
        if self._total is None or self._named:
            return self._total and self._total / self._named
        self._shares[served] = (self._total - sum(self._shares[other] for other in others)) / 2
        return self._shares[served]
