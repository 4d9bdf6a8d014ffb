"""The largest context and batch of a model."""

from dataclasses import dataclass

from edgellm.arch.description import Description
from edgellm.engine.program import Program
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile
from kquants.layout import MAX_EXPERT_BATCH_ROWS, SLICE_ROWS
from kquants.records import PlanOp

MAX_ACTIVATION_BYTES, MAX_EXPERT_ACTIVATION_BYTES, MIN_BATCH_ROWS = 48 << 20, 256 << 20, 16
"""Very wide models have smaller batches, so that activations stay below these sizes, without experts and with them; but
never fewer rows than MIN_BATCH_ROWS. A row takes 219 KB in a model of Qwen3-30B-A3B's shape, 156 of them for its eight
experts."""


@dataclass(frozen=True)
class BatchLimits:
    """The most rows of a batch and the most tokens of a sequence, and the type of KV pages."""

    rows: int
    ctx: int
    kv_type: str


def context_length(file: GGUFFile, model: Description, ctx: int | None) -> int:
    """The most tokens of a sequence: `ctx`, by default those of the model. Raises OptionError for more than that."""
    if ctx is not None and ctx > model.context_length:
        most, trained = model.context_length, file.get_int(f"{file.architecture}.context_length", None)
        windowed = f"sees a window of {most} tokens at a time, and edgellm computes no longer context for it"
        why = f"was made for up to {most} tokens" if most == trained else windowed
        raise OptionError(f"option ctx cannot be {ctx}: {printable(file.path.name)} {why}")
    return ctx or model.context_length


def max_batch_rows(program: Program, ctx: int) -> int:
    """Rows of the largest batch: more with experts, so that the weights of each are read once for many rows."""
    most, room = SLICE_ROWS, MAX_ACTIVATION_BYTES
    if any(isinstance(op.arguments, PlanOp) for op in program.ops):
        most, room = MAX_EXPERT_BATCH_ROWS, MAX_EXPERT_ACTIVATION_BYTES
    return min(most, ctx, max(MIN_BATCH_ROWS, room // program.row_bytes))
