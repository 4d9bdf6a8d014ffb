"""Draws by the Gumbel-max trick: each token id has a random number of its own at each position of a reply.

Of tokens x with probabilities p_x, the one with the smallest E_x / p_x is drawn, where the E_x are independent
exponential numbers; that is the one with the largest log p_x + G_x, as -log E_x is a Gumbel number. It is x with
probability p_x. The E_x do not depend on the distribution: two models draw the same token where they nearly agree, so a
draft model guesses what the target model will draw, at any temperature (docs/speculation.md has the proofs).

The numbers of a position are a stream of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014); number i is that of token id i. Philox gives its start, as a function of seed,
sequence and position. A Philox for each id took five times as long with 40 ids, and ten times with 128,256.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.sampling.philox import philox4x32
from edgellm.sampling.sampler import Distribution
from edgellm.sampling.top_k import Ids

TOKEN, RESIDUAL, PROPOSAL = 1, 2, 3
"""What noise is for: tokens of the text, those drawn in place of a rejected draft, and drafts of their own noise."""

_WORD = 0xFFFFFFFF
_STEP, _FIRST, _SECOND = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_30, _27, _31, _12 = map(np.uint64, (30, 27, 31, 12))


class DrawKey(NamedTuple):
    """What the random numbers of a reply depend on: the seed, and the number of the reply among those to one prompt."""

    seed: int
    sequence: int


class Drawn(NamedTuple):
    """A token that was drawn, and by how many nats its perturbed score is above the next one's; inf if it is alone."""

    token: int
    margin: float


def splitmix64(start: int, ids: Ids) -> NDArray[np.uint64]:
    """Numbers `ids`, from 0 on, of the stream of SplitMix64 that starts at `start`: uint64, in the shape of `ids`."""
    z = ids.astype(np.uint64)
    z += np.uint64(1)
    z *= _STEP
    z += np.uint64(start)
    z ^= z >> _30
    z *= _FIRST
    z ^= z >> _27
    z *= _SECOND
    z ^= z >> _31
    return z


def exponentials(ids: Ids, key: DrawKey, position: int, purpose: int = TOKEN) -> NDArray[np.float64]:
    """An exponential number of rate 1 for each of `ids` (n,); `position` and `key.sequence` are below 2**32.

    Of the 64 random bits of a token, the upper 52 give k, and the number is -log u of u = (k + 1/2) / 2**52: exact in
    float64, and never 0 or 1. So a token of probability p is drawn with a relative error of 2**-52 / p at most.
    """
    # `uniform` has 0 in place of the purpose, so it shares no counter with these.
    counter = (position, 0, key.sequence, purpose)
    high, low, _, _ = philox4x32(counter, (key.seed & _WORD, key.seed >> 32))
    u = (splitmix64(high << 32 | low, ids) >> _12).astype(np.float64)
    u += 0.5
    u *= 2.0**-52
    np.log(u, out=u)
    np.negative(u, out=u)
    return u


@np.errstate(over="ignore")  # the score of a token that is next to impossible is inf
def gumbel_draw(distribution: Distribution, key: DrawKey, position: int, purpose: int = TOKEN) -> Drawn:
    """Draw the token at `position`, the number of tokens before it. Of equal scores the likelier token's wins."""
    if len(distribution.ids) == 1:
        return Drawn(int(distribution.ids[0]), np.inf)
    scores = exponentials(distribution.ids, key, position, purpose)
    scores /= distribution.probabilities
    first = int(scores.argmin())
    smallest, scores[first] = scores[first], np.inf
    return Drawn(int(distribution.ids[first]), float(np.log(scores.min() / smallest)))
