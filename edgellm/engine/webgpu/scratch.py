"""The activations of a batch on a GPU, in buffers that all blocks share."""

from typing import NamedTuple

from edgellm.arch.description import Description
from edgellm.engine.limits import BatchLimits
from edgellm.engine.webgpu.batch_layout import HEADER, MAX_SPANS, ROW
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.weights import padded_width
from kquants.kv_layout import PAGE

_LOGIT_BYTES = 16 << 20
"""Bytes of the logits that one dispatch computes."""

_PARTIALS_BYTES, _SPLIT_ROWS = 32 << 20, 16
"""The most bytes of partial results, and the most rows of a batch, whose sequences are split into spans."""


class Activation(NamedTuple):
    """A buffer of rows of `width` float32."""

    buffer: Buffer
    width: int


class ActivationWidths:
    """Values of a row of each activation, and the rows of those that a binding limits."""

    def __init__(self, model: Description, rows: int, binding: int) -> None:
        self.x, self.gate = padded_width(model.width), padded_width(model.ffn)
        self.qkv = model.q_width + 2 * model.kv_width
        self.mixed = padded_width(model.q_width)
        self.widest = max(self.x, self.gate, self.mixed)
        self.partial = model.heads * (model.head_dim + 4)
        self.split_rows = max(1, min(_SPLIT_ROWS, min(_PARTIALS_BYTES, binding) // (4 * MAX_SPANS * self.partial)))
        self.logit_rows = max(1, min(rows, min(_LOGIT_BYTES, binding) // (4 * model.vocab)))


def buffer_bytes(model: Description, limits: BatchLimits, head: bool, binding: int = 1 << 30) -> dict[str, int]:
    """The bytes of each buffer, by name; `head`: with logits. Buffers are kept below `binding` bytes if possible."""
    widths, rows = ActivationWidths(model, limits.rows, binding), limits.rows
    floats = {
        "x": rows * widths.x,
        "normed": rows * widths.x,
        "qkv": rows * widths.qkv,
        "mixed": rows * widths.mixed,
        "gate": rows * widths.gate,
        "up": rows * widths.gate,
        "packed": rows * widths.widest // 4,
        "scales": rows * widths.widest // 16,
        "partials": max(widths.split_rows * MAX_SPANS, rows) * widths.partial,
        "logits": widths.logit_rows * model.vocab if head else 1,
        "batch": HEADER + ROW * rows,
        "tables": rows * -(-limits.ctx // PAGE),
        "cos_sin": 2 * rows * len(model.rope.frequencies),
        "nothing": 1,
    }
    return {name: 4 * n for name, n in floats.items()}


class Scratch:
    """The buffers of `buffer_bytes`, as attributes of the same names."""

    def __init__(self, gpu: GPUContext, model: Description, limits: BatchLimits, head: bool) -> None:
        self.widths = ActivationWidths(model, limits.rows, gpu.binding)
        needed = buffer_bytes(model, limits, head, gpu.binding)
        made = {name: gpu.buffer(nbytes, f"room for {name}") for name, nbytes in needed.items()}
        w = self.widths
        self.x, self.normed = Activation(made["x"], w.x), Activation(made["normed"], w.x)
        self.qkv, self.mixed = Activation(made["qkv"], w.qkv), Activation(made["mixed"], w.mixed)
        self.gate, self.up = Activation(made["gate"], w.gate), Activation(made["up"], w.gate)
        self.logits = Activation(made["logits"], model.vocab)
        self.partials, self.packed, self.scales = (made[name] for name in ("partials", "packed", "scales"))
        self.batch, self.tables, self.cos_sin = (made[name] for name in ("batch", "tables", "cos_sin"))
        self.nothing = made["nothing"]
