"""Words of a record, and those that each op's record begins with."""

from typing import Any, NamedTuple

Word = Any
"""An int64 in a kernel. In a program also a Tensor or Buffer, which a device replaces by its address; None is null."""

OP_WORDS = 32
"""Words of an op's record."""


class OpHeader(NamedTuple):
    """The first words of an op's record; `kquants.threadpool.interpreter` says what a unit of work is."""

    kernel: Word
    """Address of the kernel."""
    units: Word
    units_per_row: Word
    outputs: Word
    """1: the op works on the rows whose logits are wanted; 0: on all rows."""
    barrier: Word
    """1: all threads wait for each other before the op, as it reads what earlier ops write or writes what they read."""
    slots: Word = 1
    """The op works on this many times its rows: as many slots of each row, in buffers that have a row for each slot."""
    units_factor: Word = 0
    """Address of a GroupList: `units` are those of each of its groups of rows. Or null."""


FIRST_ARGUMENT = len(OpHeader._fields)
"""Word of an op's record where its arguments begin."""
