"""A model in the list, and whether it fits in this machine's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from edgellm.perf.plan import Plan

Fit = Literal["fits", "tight", "too large", "unknown"]

SHORT = 2048
"""Tokens of the shortest useful conversation."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model. `name` is a MODEL argument, or the reference to pull if it is `offered`.

    `parameters`, `bytes` and `context` (tokens) are None if unknown. `problem` is why it cannot be opened, `note` a
    line about it. `chats` is False for a model without a chat template.
    """

    name: str
    source: str
    parameters: int | None = None
    quantization: str = ""
    bytes: int | None = None
    context: int | None = None
    fit: Fit = "unknown"
    problem: str | None = None
    note: str = ""
    offered: bool = False
    chats: bool = True

    def matches(self, typed: str) -> bool:
        """Whether the name, the quantization or the source contains each typed word."""
        words = f"{self.name} {self.quantization} {self.source}".casefold()
        return all(word in words for word in typed.casefold().split())


def fit(plan: Plan) -> Fit:
    """Whether a model fits in the memory that is free now.

    "fits": what a full context needs is at most 90 % of it, and what is optional is in the rest. "tight": it runs, but
    takes more, or a full context does not fit. "too large": weights and a conversation of 2,048 tokens do not fit, and
    the weights would be read from the disk for every token.
    """
    if plan.needed(SHORT) > plan.available:
        return "too large"
    has_room = 10 * plan.needed(plan.ctx) <= 9 * plan.available
    return "fits" if has_room and plan.total <= plan.available else "tight"
