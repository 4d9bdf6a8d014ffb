"""The choice of a type for each tensor: the least loss within a number of bytes.

The losses of tensors are taken to add up. Of each tensor's choices those on the lower convex hull of (bytes, loss) are
kept: there each further byte gains less than the one before. From the smallest choices on, the step that gains the most
for each byte is taken as long as it fits, of all tensors. Where the steps fill the room exactly this is the optimum of
the multiple-choice knapsack problem, elsewhere it is off by less than one step (Sinha and Zoltners 1979, "The
Multiple-Choice Knapsack Problem").
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Choice(NamedTuple):
    """A type for a tensor: the bytes that the tensor takes, and the loss of the model."""

    type: str
    nbytes: int
    loss: float


class _Step(NamedTuple):
    """From one choice of a tensor to the next larger one; `gain` is the loss that goes for each byte."""

    gain: float
    tensor: str
    nbytes: int
    to: Choice


def allocate(choices: Mapping[str, Sequence[Choice]], room: int) -> dict[str, Choice]:
    """The choice for each tensor, all together within `room` bytes if the smallest ones are.

    Each tensor needs at least one choice.
    """
    hulls = {tensor: lower_hull(of) for tensor, of in choices.items()}
    chosen = {tensor: hull[0] for tensor, hull in hulls.items()}
    left = room - sum(choice.nbytes for choice in chosen.values())
    stopped = set[str]()
    for step in sorted(_steps(hulls), key=lambda step: -step.gain):
        if step.tensor in stopped:
            continue
        if step.nbytes > left:
            stopped.add(step.tensor)  # its later steps begin where this one ends
        else:
            chosen[step.tensor], left = step.to, left - step.nbytes
    return chosen


def lower_hull(choices: Sequence[Choice]) -> list[Choice]:
    """The choices on the lower convex hull of (bytes, loss), smallest first, down to the least loss."""
    hull = list[Choice]()
    for choice in sorted(choices, key=lambda choice: (choice.nbytes, choice.loss)):
        if hull and choice.loss >= hull[-1].loss:
            continue
        while len(hull) > 1 and _gain(hull[-2], hull[-1]) <= _gain(hull[-2], choice):
            hull.pop()
        hull.append(choice)
    return hull


def _steps(hulls: Mapping[str, Sequence[Choice]]) -> list[_Step]:
    return [
        _Step(_gain(a, b), tensor, b.nbytes - a.nbytes, b) for tensor, hull in hulls.items() for a, b in pairwise(hull)
    ]


def _gain(a: Choice, b: Choice) -> float:
    """The loss that goes for each byte from a to b, which is larger."""
    return (a.loss - b.loss) / (b.nbytes - a.nbytes)
