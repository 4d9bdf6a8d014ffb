"""The plan of a batch: its choices sorted by expert, and the group of slots that each expert has."""

import numba as nb

from kquants.compiler.decorators import inline, kernel
from kquants.records import PlanOp
from kquants.simd import load_i32, store_i32
from kquants.threadpool.interpreter import arguments_of, end_groups, row_count, write_group

_plan_of = arguments_of(PlanOp)


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
            write_group(groups, group, expert, slot)
            group += 1
            slot += count
    end_groups(groups, group, slot)


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
