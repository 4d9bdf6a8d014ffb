"""Arguments of the ops around latent attention: heads to slots and back."""

from typing import NamedTuple

from kquants.records.header import Word


class SplitHeadsOp(NamedTuple):
    """Heads of latent attention to slots: slot h · rows + t is of head h of row t. A row has `heads` slots.

    A head of q is [plain values | values for the part of the key that all heads share]. The former are written to each
    of plain, q8 and super_q8 that is not null, the latter to the end of the slot of `queries`: rotated, if `rope_dim`
    is as large as `shared_dim`; 0: no RoPE.
    """

    q: Word
    q_bytes: Word
    heads: Word
    plain_dim: Word
    shared_dim: Word
    rope_dim: Word
    rope_type: Word
    rope_table: Word
    plain: Word
    plain_bytes: Word
    q8: Word
    super_q8: Word
    queries: Word
    queries_bytes: Word
    rope_first: Word
    """Values of a slot of `queries` before the shared ones."""


class HeadGroupsOp(NamedTuple):
    """Write the GroupList of slots in order of heads: matrix h has the slots h · rows … (h + 1) · rows - 1."""

    groups: Word
    heads: Word


class JoinHeadsOp(NamedTuple):
    """Row t of h = the values of the slots h · rows + t of all heads, side by side. The inverse of SplitHeadsOp.

    Written to each of h, q8 and super_q8 that is not null.
    """

    x: Word
    x_bytes: Word
    heads: Word
    head_dim: Word
    h: Word
    h_bytes: Word
    q8: Word
    super_q8: Word
