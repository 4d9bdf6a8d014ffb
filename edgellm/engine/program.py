"""A program: the list of ops that turns a batch of rows into logits, and the buffers between them.

Ops name kernels, tensors and buffers, and hold no address: a device replaces these by its own.
"""

from dataclasses import dataclass, field, replace

from kquants import records
from kquants.layout import PADDING_ROWS


@dataclass(frozen=True)
class Buffer:
    """Activations: `row_bytes` for each row of the batch, or for `rows` rows whatever the batch.

    With `slots`, there are as many rows of `row_bytes` for each row of the batch.

    CPUs with AMX need `int16_bytes` more for each row. They are counted apart, since a program is the same
    for all CPUs.
    """

    name: str
    row_bytes: int
    rows: int | None = None
    int16_bytes: int = 0
    slots: int = 1

    def with_slots(self, slots: int) -> "Buffer":
        """A buffer with as many rows for each row of the batch."""
        return replace(self, name=f"{self.name} x {slots}", slots=slots)

    def count(self, rows: int) -> int:
        """How many rows of `row_bytes` it has for batches of up to `rows` rows."""
        return self.rows or (rows + PADDING_ROWS) * self.slots


@dataclass(frozen=True)
class Op:
    """A kernel and its arguments, a record of `kquants.records`; it has `units + per_row · rows` units of work.

    With `slots`, it works on as many rows for each row. `units` are multiplied by the number that `units_factor` begins
    with, if there is one.

    An argument that is an address for the kernel is a Tensor, a Buffer, or None for null. With `outputs`, the rows are
    those whose logits are wanted. `barrier`: all threads wait for each other before the op. It is False for an op that
    reads nothing that was written since the last barrier, and writes nothing that was read or written since then.
    """

    kernel: str
    arguments: records.Arguments
    units: int = 0
    per_row: int = 0
    outputs: bool = False
    barrier: bool = True
    slots: int = 1
    units_factor: Buffer | None = None


@dataclass(frozen=True)
class ObservedInput:
    """What the tensors `names` are multiplied by, `columns` values a row, and the buffers of sums of its squares.

    `sums` has float64[columns] for each matrix, `counts` int64 for each, of which the first `counted` are different.
    """

    names: tuple[str, ...]
    columns: int
    sums: Buffer
    counts: Buffer
    counted: int


@dataclass(frozen=True)
class GivenInput:
    """What the tensors `names` are multiplied by: `columns` values of each row of a buffer, before op number `op`."""

    names: tuple[str, ...]
    columns: int
    buffer: Buffer
    op: int


@dataclass(frozen=True)
class FeaturePlace:
    """Where rows of features go before the ops run: `columns` values from column `first` of a buffer on."""

    buffer: Buffer
    first: int
    columns: int


@dataclass
class Program:
    """The ops of the CPU's blocks of a model, the buffers they use, and the scratch (bytes) that a thread needs.

    A KV page of group g has `page_bytes[g]` for all their layers, a state page of recurrent layers `state_bytes`. `x`
    is the hidden state, `hidden` that behind the last norm, or a head's feedback. The ops of block b begin at
    `starts[b]` and end at `starts[b + 1]`; those before the first block look up embeddings. `observed` are the inputs
    of matmuls whose squares are added up, `given` those that are given row by row, in the order of ops. `features` are
    the places of those that a head reads, `all_hidden` is the state of all rows behind the last norm, where it is kept.
    """

    x: Buffer
    hidden: Buffer
    logits: Buffer
    page_bytes: list[int]
    ops: list[Op] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    scratch_bytes: int = 0
    state_bytes: int = 0
    observed: list[ObservedInput] = field(default_factory=list)
    given: list[GivenInput] = field(default_factory=list)
    features: list[FeaturePlace] = field(default_factory=list)
    all_hidden: Buffer | None = None

    def end_at(self, op: int) -> None:
        """Leave out all ops from number `op` on."""
        del self.ops[op:]
        self.starts = [min(start, op) for start in self.starts]

    @property
    def buffers(self) -> list[Buffer]:
        """Every buffer once, in order of first use."""
        used = (argument for op in self.ops for argument in (*op.arguments, op.units_factor))
        return list(dict.fromkeys(argument for argument in used if isinstance(argument, Buffer)))

    @property
    def row_bytes(self) -> int:
        """Bytes of activations for each row of a batch, without logits, which few rows have."""
        return sum(b.slots * b.row_bytes for b in self.buffers if b != self.logits and not b.rows)

    def activation_bytes(self, rows: int) -> int:
        """Bytes of all buffers but logits, for batches of up to `rows` rows."""
        return sum(b.count(rows) * b.row_bytes for b in self.buffers if b != self.logits)

    @property
    def matmuls(self) -> list[int]:
        """The indices of the ops that multiply by weights, in order."""
        return [i for i, op in enumerate(self.ops) if isinstance(op.arguments, records.MatmulOp)]

    @property
    def kernels(self) -> set[str]:
        """The names of all kernels."""
        return {op.kernel for op in self.ops}
