"""How often draws from two distributions agree, as the definitions read, and the chi-square test of draws."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.sampling.sampler import Distribution

Shares = NDArray[np.floating[Any]]


def distribution(*shares: float) -> Distribution:
    """Of ids 0, 1, ... in order of probability, as a sampler gives them; ids of probability 0 are left out."""
    values = np.array(shares) / sum(shares)
    ids = np.argsort(-values, kind="stable")[: np.count_nonzero(values)]
    return Distribution(ids, values[ids])


def total_variation(p: Shares, q: Shares) -> float:
    """Half the sum of |p_x - q_x|: 1 less the most that any coupling of two draws agrees."""
    return float(np.abs(p - q).sum()) / 2


def agreement(p: Shares, q: Shares) -> float:
    """The probability that draws from `p` and `q`, over the same ids, are equal with the same Gumbel noise.

    Token x is drawn from both if E_y >= E_x · max(p_y / p_x, q_y / q_x) for all y, where E are the exponential numbers.
    """
    both = np.flatnonzero((p > 0) & (q > 0))
    return float(sum(1 / np.maximum(p / p[x], q / q[x]).sum() for x in both))


def lower_bound(p: Shares, q: Shares) -> float:
    """(1 - TV) / (1 + TV), which the agreement is never below (arXiv:2408.07978)."""
    distance = total_variation(p, q)
    return (1 - distance) / (1 + distance)


def chi_square(draws: Sequence[Hashable], shares: Mapping[Hashable, float]) -> float:
    """The statistic of `draws` against `shares`, as a multiple of what one seed in 1,000 exceeds if the shares hold.

    Cells expected fewer than 5 times are counted as one.
    """
    counts = Counter(draws)
    assert counts.keys() <= shares.keys()
    cells = [(counts[key], share * len(draws)) for key, share in shares.items()]
    rare = [(found, expected) for found, expected in cells if expected < 5]
    cells = [cell for cell in cells if cell[1] >= 5]
    if sum(expected for _, expected in rare) >= 5:
        cells.append((sum(found for found, _ in rare), sum(expected for _, expected in rare)))
    statistic = sum((found - expected) ** 2 / expected for found, expected in cells)
    return float(statistic) / _limit(len(cells) - 1)


def _limit(degrees: int) -> float:
    """The quantile 0.999 of chi-square (E. Wilson and M. Hilferty, 1931), within 1 % from 3 degrees of freedom on."""
    spread = 2 / (9 * degrees)
    return degrees * float(1 - spread + 3.0902 * spread**0.5) ** 3
