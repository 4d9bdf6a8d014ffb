"""The plan of a batch: the slots of all rows, sorted by expert, and the groups that experts have of them."""

import numba as nb

from kquants.compiler.decorators import inline, kernel
from kquants.records import GroupList, MatmulGroup, PlanOp
from kquants.simd import load_i32, store_i32, store_i64
from kquants.threadpool.interpreter import arguments_of, row_count

_plan_of = arguments_of(PlanOp)
_GROUPS = 8 * len(GroupList._fields)
_GROUP_BYTES = 8 * len(MatmulGroup._fields)


@inline
def _store_group(groups: int, place: int, matrix: int, first_row: int) -> None:
    store_i64(groups + _GROUPS + place * _GROUP_BYTES, matrix)
    store_i64(groups + _GROUPS + place * _GROUP_BYTES + 8, first_row)


@inline
def _count(chosen: int, choices: int, experts: int, counts: int) -> None:
    """Write how many choices each expert has."""
    for expert in range(experts):
        store_i32(counts + 4 * expert, nb.int32(0))
    for c in range(choices):
        place = counts + 4 * load_i32(chosen + 4 * c)
        store_i32(place, load_i32(place) + nb.int32(1))


@inline
def _write_groups(groups: int, experts: int, counts: int) -> None:
    """Write the groups of the experts that have choices, and turn counts into each expert's first slot."""
    group, slot = 0, 0
    for expert in range(experts):
        count = load_i32(counts + 4 * expert)
        store_i32(counts + 4 * expert, nb.int32(slot))
        if count > 0:
            _store_group(groups, group, expert, slot)
            group += 1
            slot += count
    _store_group(groups, group, 0, slot)
    store_i64(groups, group)


@kernel("plan")
def plan(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: PlanOp; all rows are the one unit. Scratch: int32[experts]. A counting sort, which is stable."""
    given = _plan_of(op)
    choices = row_count(op, batch) * given.used
    _count(given.chosen, choices, given.experts, scratch)
    _write_groups(given.groups, given.experts, scratch)
    for c in range(choices):
        next_slot = scratch + 4 * load_i32(given.chosen + 4 * c)
        slot = load_i32(next_slot)
        store_i32(given.choices + 4 * slot, nb.int32(c))
        store_i32(given.slots + 4 * c, slot)
        store_i32(next_slot, slot + nb.int32(1))
