"""The choice of the largest keys, float32: of experts, or of groups of experts.

The chosen indices are distinct and below the number of keys, whatever the keys are, NaN and infinities included.
"""

import math

import numba as nb

from kquants.compiler.decorators import inline
from kquants.simd import (
    add_f32,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    load_i32,
    splat_f32,
    store_f32,
    store_f32x16,
    store_i32,
    where_less_f32,
)

_INFINITY, _MINUS_INFINITY = nb.float32(math.inf), nb.float32(-math.inf)


@inline
def choose(keys: int, first: int, last: int, count: int, chosen: int) -> None:
    """Write the indices of the `count` largest of the keys first … last - 1 to `chosen`, int32, largest first.

    Of equal keys the one of the lower index comes first. There are at least `count` keys.
    """
    for i in range(first, last):
        key, place = load_f32(keys + 4 * i), min(i - first, count)
        while place > 0 and key > load_f32(keys + 4 * load_i32(chosen + 4 * (place - 1))):
            if place < count:
                store_i32(chosen + 4 * place, load_i32(chosen + 4 * (place - 1)))
            place -= 1
        if place < count:
            store_i32(chosen + 4 * place, nb.int32(i))


@inline
def write_keys(scores: int, bias: int, n: int, keys: int) -> None:
    """Write score + bias to `keys`, in whole vectors; `bias` may be null. NaN counts as the largest."""
    largest = splat_f32(_INFINITY)
    for k in range(0, n, 16):
        key = load_f32x16(scores + 4 * k)
        if bias != 0:
            key = add_f32(key, load_f32x16_part(bias + 4 * k, n - k))
        store_f32x16(keys + 4 * k, where_less_f32(key, largest, key, largest))


@inline
def keep_groups(keys: int, n: int, groups: int, used_groups: int, group_scores: int, scratch: int) -> None:
    """Set the keys of all groups but the `used_groups` best to -inf.

    The score of a group is the sum of its `group_scores` largest keys. Scratch: float32[groups], then int32 for the
    largest keys of a group, or for the best groups.
    """
    size, chosen = n // groups, scratch + 4 * groups
    for group in range(groups):
        choose(keys, group * size, (group + 1) * size, group_scores, chosen)
        score = nb.float32(0)
        for j in range(group_scores):
            score += load_f32(keys + 4 * load_i32(chosen + 4 * j))
        store_f32(scratch + 4 * group, score)
    choose(scratch, 0, groups, used_groups, chosen)
    for group in range(groups):
        store_f32(scratch + 4 * group, nb.float32(0))
    for j in range(used_groups):
        store_f32(scratch + 4 * load_i32(chosen + 4 * j), nb.float32(1))
    for i in range(n):
        if load_f32(scratch + 4 * (i // size)) == nb.float32(0):
            store_f32(keys + 4 * i, _MINUS_INFINITY)
