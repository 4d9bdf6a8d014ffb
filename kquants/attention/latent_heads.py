"""The heads of latent attention, each of which is multiplied by a matrix of its own: slots, in order of heads.

Slot h · rows + t is of head h of row t, so that the slots of a head follow each other, as grouped matmuls need them.
"""

from kquants.activations.row_quantizer import quantize_values
from kquants.attention.pages import position_entry
from kquants.attention.rope import rotate
from kquants.compiler.decorators import inline, kernel
from kquants.layout import PIECE
from kquants.records import HeadGroupsOp, JoinHeadsOp, SplitHeadsOp
from kquants.simd import copy, load_f32x16_part, store_f32x16
from kquants.threadpool.interpreter import arguments_of, batch_row, end_groups, row_count, write_group

_split_of, _join_of, _groups_of = arguments_of(SplitHeadsOp), arguments_of(JoinHeadsOp), arguments_of(HeadGroupsOp)


@inline
def _copy_padded(to: int, x: int, n: int) -> None:
    """Copy n float32, with zeros behind them up to a multiple of 16."""
    for k in range(0, n, 16):
        store_f32x16(to + 4 * k, load_f32x16_part(x + 4 * k, n - k))


@kernel("split_heads")
def split_heads(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SplitHeadsOp; a slot a unit."""
    given, slots = _split_of(op), row_count(op, batch)
    rows, n = slots // given.heads, given.plain_dim
    for slot in range(first, last):
        h, t = slot // rows, slot % rows
        head = given.q + t * given.q_bytes + 4 * h * (n + given.shared_dim)
        if given.plain != 0:
            _copy_padded(given.plain + slot * given.plain_bytes, head, n)
        quantize_values(head, 0, n, n, slot, slots, given.q8, given.super_q8)
        shared = given.queries + slot * given.queries_bytes + 4 * given.rope_first
        copy(shared, head + 4 * n, 4 * given.shared_dim)
        if given.rope_dim > 0:
            cos_sin = position_entry(batch, given.rope_table, batch_row(op, batch, t), 4 * given.rope_dim)
            rotate(shared, cos_sin, given.rope_dim, given.rope_type)


@kernel("head_groups")
def head_groups(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: HeadGroupsOp; one unit."""
    given, rows = _groups_of(op), row_count(op, batch)
    for h in range(given.heads):
        write_group(given.groups, h, h, h * rows)
    end_groups(given.groups, given.heads, given.heads * rows)


@inline
def _gather(op: int, t: int, rows: int, start: int, stop: int, to: int) -> None:
    """Write values start … stop - 1 of all heads of row t, side by side."""
    given = _join_of(op)
    n, k = given.head_dim, start
    while k < stop:
        h, d = k // n, k % n
        count = min(n - d, stop - k)
        copy(to + 4 * (k - start), given.x + (h * rows + t) * given.x_bytes + 4 * d, 4 * count)
        k += count


@kernel("join_heads")
def join_heads(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: JoinHeadsOp; a piece of a row a unit. Where h is null, the values pass through scratch."""
    given, rows = _join_of(op), row_count(op, batch)
    n = given.heads * given.head_dim
    pieces = (n + PIECE - 1) // PIECE
    for unit in range(first, last):
        t, start = unit // pieces, unit % pieces * PIECE
        stop = min(start + PIECE, n)
        piece = given.h + t * given.h_bytes + 4 * start if given.h != 0 else scratch
        _gather(op, t, rows, start, stop, piece)
        quantize_values(piece - 4 * start, start, stop, n, t, rows, given.q8, given.super_q8)
