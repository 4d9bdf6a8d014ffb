"""The largest of many scores, in order, without sorting them all."""

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Ids = NDArray[np.intp]

LARGEST = np.finfo(np.float32).max
_FEW = 2048


def top(scores: Scores, k: int) -> Ids:
    """The ids of the `k` largest scores, or of fewer if the others are -inf: the largest first, equals by id."""
    return ranked(scores, _near_top(scores, k))[:k]


def above(scores: Scores, floor: float) -> Ids:
    """The ids of the scores that are at least `floor`: the largest first, equals by id."""
    return ranked(scores, np.flatnonzero(scores >= np.float32(floor)))


def ranked(scores: Scores, ids: Ids) -> Ids:
    """`ids`, given in rising order, by falling score; equal scores stay in order of id."""
    falling = -scores[ids]
    return ids[falling.argsort(kind="stable") if len(ids) < _FEW else _radix_argsort(falling)]


def _near_top(scores: Scores, k: int) -> Ids:
    """At least the ids of the `k` largest scores that are not -inf, in rising order of id.

    The k-th largest of the maxima of disjoint groups cannot be above the k-th largest of all, and is close to
    it when the groups are many: 0.05 ms for 128k scores, where a partition of all takes 0.8 ms.
    """
    groups = max(1024, 2 * k)
    rows = len(scores) // groups
    heads = scores[: rows * groups].reshape(rows, groups).max(axis=0) if rows else scores
    floor = np.partition(heads, -k)[-k] if k < len(heads) else -LARGEST
    return np.flatnonzero(scores >= max(floor, -LARGEST))


def _radix_argsort(values: Scores) -> Ids:
    """The stable order of values that are not NaN: 2.5 ms for 128k, a fifth of what `argsort` takes for floats.

    Read as integers, floats of one sign are in order; NumPy sorts 16-bit integers by radix.
    """
    bits = (values + np.float32(0)).view(np.int32)  # the sum has no -0.0, which would come before 0.0
    rising = (bits ^ (bits >> 31 | np.int32(-(2**31)))).view(np.uint32)
    order = np.argsort(rising.astype(np.uint16), kind="stable")
    return order[np.argsort((rising >> 16).astype(np.uint16)[order], kind="stable")]
