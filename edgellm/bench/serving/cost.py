"""What a run costs: energy, and money."""

from dataclasses import dataclass
from typing import Any

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Prices:
    """`hour` is the price of the machine for an hour, `kwh` that of energy, in any currency; None if not asked for."""

    hour: float | None = None
    kwh: float | None = None


def cost_figures(seconds: float, tokens: int, joules: float | None, prices: Prices) -> dict[str, Any]:
    """The energy of a run, and its price for a million generated tokens; the tokens of prompts come with them.

    A figure is None if it is not known, or if no tokens were generated.
    """
    known = joules is not None and tokens > 0
    price = None
    if tokens and (prices.hour is not None or (prices.kwh is not None and joules is not None)):
        price = (prices.hour or 0) * seconds / 3600 + (prices.kwh or 0) * (joules or 0) / JOULES_PER_KWH
    return {
        "joules": joules,
        "tokens_per_joule": tokens / joules if known and joules else None,
        "price_per_million": None if price is None else price / tokens * 1e6,
    }
