"""Draws by the Gumbel-max trick, whose random numbers belong to a token id at a position of a reply."""

from typing import NamedTuple


class DrawKey(NamedTuple):
    """What the random numbers of a reply depend on: the seed, and the number of the reply among those to one prompt."""

    seed: int
    sequence: int


class Drawn(NamedTuple):
    """A token that was drawn, and by how many nats its perturbed score is above the next one's; inf if it is alone."""

    token: int
    margin: float
