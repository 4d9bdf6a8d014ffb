"""Arguments of matrix products, and the groups of rows of those by a stack of matrices."""

from typing import NamedTuple

from kquants.records.header import FIRST_ARGUMENT, Word


class MatmulOp(NamedTuple):
    """y = factor · W x + bias, or y = y + (factor · W x + bias) with `accumulate` 1.

    `rows`, `columns` and `row_bytes` are those of W.

    x is float32, or quantized as W's format requires. The rows of quantized x are interleaved in groups, so that
    `x_bytes` is not used.
    """

    w: Word
    rows: Word
    columns: Word
    row_bytes: Word
    x: Word
    x_bytes: Word
    y: Word
    y_bytes: Word
    accumulate: Word
    next_matmul: Word = 0
    """Address of the next MatmulOp record, whose weights are prefetched; the last one's next is the first. Or null."""
    groups: Word = 0
    """Address of a GroupList: rows of x and y belong to matrices of a stack, of which W is the first. Null: to W."""
    matrix_bytes: Word = 0
    """Bytes from a matrix of the stack to the next."""
    bias: Word = 0
    """float32, added to y: `rows` values for each matrix of the stack, see `bias_bytes`. Null: none."""
    bias_bytes: Word = 0
    """Bytes from the bias of a matrix of the stack to that of the next."""
    factors: Word = 0
    """float32, the factor of each matrix of the stack, or of W. Null: 1."""


NEXT_MATMUL = FIRST_ARGUMENT + MatmulOp._fields.index("next_matmul")
"""Word of a MatmulOp's record that is filled in when all records have addresses."""


class GroupList(NamedTuple):
    """What a grouped matmul multiplies: `count` groups of consecutive rows of x, each by one matrix of a stack.

    Behind it in memory follow `count` + 1 records MatmulGroup, in order of their rows; the last one has the end of the
    rows alone. A unit of a grouped matmul is a tile of the matrix of a group: unit u is tile u mod tiles of group
    u div tiles.
    """

    count: Word


class MatmulGroup(NamedTuple):
    """Rows of x and y from `first_row` to that of the next group belong to matrix `matrix` of a stack."""

    matrix: Word
    first_row: Word


def group_list_bytes(groups: int) -> int:
    """Bytes of a GroupList with room for `groups` groups."""
    return 8 * (len(GroupList._fields) + (groups + 1) * len(MatmulGroup._fields))
