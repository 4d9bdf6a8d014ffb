"""A model in the picker, and whether it fits in this machine's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from edgellm.perf.plan import Plan

Fit = Literal["fits", "tight", "too large", "unknown"]

SHORT = 2048
"""Tokens of a conversation without which a model is of no use."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What is known of a model. `name` is what MODEL accepts, or what a pull is asked for where it is `offered`.

    `parameters`, `bytes` and `context` (tokens) are None where nobody says. `problem` is why it cannot be opened.
    `note` says more in a line. `chats`: it has a chat template, as far as that is known.
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
        """Whether each word of what was typed is in the name, the quantization or the source."""
        words = f"{self.name} {self.quantization} {self.source}".casefold()
        return all(word in words for word in typed.casefold().split())


def fit(plan: Plan) -> Fit:
    """How a model fits in the memory that is free now.

    "fits": everything, with a full context, takes at most nine tenths of it. "tight": it runs, but leaves less, or has
    no room for a full context. "too large": not even a conversation of 2,048 tokens has room beside the weights, which
    would be read from the disk for every token.
    """
    short = plan.kv_cache * min(SHORT, plan.ctx) // plan.ctx
    if plan.total - plan.kv_cache + short > plan.available:
        return "too large"
    return "fits" if 10 * plan.total <= 9 * plan.available else "tight"
