"""Heads of q and their gates, which some models project together."""

from kquants.compiler.decorators import kernel
from kquants.records import SplitGateOp
from kquants.simd import copy
from kquants.threadpool.interpreter import arguments_of

_split_of = arguments_of(SplitGateOp)


@kernel("split_gate")
def split_gate(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SplitGateOp; a head of a row a unit."""
    given = _split_of(op)
    n = 4 * given.head_dim
    for unit in range(first, last):
        t, h = unit // given.heads, unit % given.heads
        x = given.x + t * given.x_bytes + 2 * n * h
        copy(given.q + t * given.q_bytes + n * h, x, n)
        copy(given.gate + t * given.gate_bytes + n * h, x + n, n)
