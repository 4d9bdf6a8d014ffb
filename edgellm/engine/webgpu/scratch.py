"""The activations of a batch on a GPU, in buffers that all blocks share."""

from edgellm.engine.limits import BatchLimits
from edgellm.engine.webgpu.batch_layout import HEADER, MAX_SPANS, ROW
from edgellm.engine.webgpu.commands import RowBuffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.expert_blocks import ExpertSizes
from edgellm.engine.webgpu.expert_scratch import expert_floats, expert_scratch
from edgellm.engine.webgpu.offloaded import OffloadedBlocks
from edgellm.engine.webgpu.weights import padded_width
from kquants.kv_layout import PAGE

_LOGIT_BYTES = 16 << 20
"""Bytes of the logits that one dispatch computes."""

_PARTIALS_BYTES, _SPLIT_ROWS = 32 << 20, 16
"""The most bytes of partial results, and the most rows of a batch, whose sequences are split into spans."""


class ActivationWidths:
    """Values of a row of each activation, and the rows of those that a binding limits.

    `mixed` and `gate` have a buffer for each size that layers have, as the zeros behind a row's last value must stay.
    """

    def __init__(self, blocks: OffloadedBlocks, rows: int, binding: int) -> None:
        attentions, vocab = blocks.attentions.values(), blocks.model.vocab
        self.x = padded_width(blocks.model.width)
        self.mixed = {each.attention_width: padded_width(each.attention_width) for each in attentions}
        self.gated = sorted({each.attention_width for each in attentions if each.has_gate})
        shared = [each.shared for each in blocks.mixtures.values() if each.shared]
        columns = [each.down.weight.shape[1] for each in (*blocks.feed_forwards.values(), *shared)]
        self.gate = {n: padded_width(n) for n in columns}
        self.qkv = max((each.q_width + each.k_width + each.v_width for each in attentions), default=1)
        self.experts = list(dict.fromkeys(map(ExpertSizes.of, blocks.mixtures.values())))
        of_slots = [sizes.used * padded_width(sizes.ffn) for sizes in self.experts]
        self.widest = max([self.x, *self.mixed.values(), *self.gate.values(), *of_slots])
        self.partial = max((each.heads * (each.value_dim + 4) for each in attentions), default=1)
        self.split_rows = max(1, min(_SPLIT_ROWS, min(_PARTIALS_BYTES, binding) // (4 * MAX_SPANS * self.partial)))
        self.logit_rows = max(1, min(rows, min(_LOGIT_BYTES, binding) // (4 * vocab)))


def buffer_bytes(blocks: OffloadedBlocks, limits: BatchLimits, binding: int = 1 << 30) -> dict[str, int]:
    """The bytes of each buffer, by name. Buffers are kept below `binding` bytes if possible."""
    widths, rows = ActivationWidths(blocks, limits.rows, binding), limits.rows
    floats = {
        "x": rows * widths.x,
        "normed": rows * widths.x,
        "qkv": rows * widths.qkv,
        **{f"mixed {n}": rows * width for n, width in widths.mixed.items()},
        **{f"head gate {n}": rows * widths.mixed[n] for n in widths.gated},
        **{f"{name} {n}": rows * width for n, width in widths.gate.items() for name in ("gate", "up")},
        "packed": rows * widths.widest // 4,
        "scales": rows * widths.widest // 16,
        **expert_floats(widths.experts, rows, blocks.model.width),
        "shared gate": rows,
        "partials": max(widths.split_rows * MAX_SPANS, rows) * widths.partial,
        "logits": widths.logit_rows * blocks.model.vocab if blocks.head else 1,
        **{f"batch {i}": HEADER + ROW * rows for i in range(len(blocks.row_kinds))},
        **{f"tables {kind.kv_group}": rows * -(-limits.ctx // PAGE) for kind in blocks.row_kinds},
        **{f"positions {i}": rows * width for i, width in enumerate(blocks.position_widths.values())},
        "nothing": 1,
    }
    return {name: 4 * n for name, n in floats.items()}


class Scratch:
    """The buffers of `buffer_bytes`.

    `mixed`, `head_gate`, `gate` and `up` are by the values of a row, `batches` by kind of rows, `tables` by KV group,
    `experts` by the sizes of mixtures.
    """

    def __init__(self, gpu: GPUContext, blocks: OffloadedBlocks, limits: BatchLimits) -> None:
        self.widths = w = ActivationWidths(blocks, limits.rows, gpu.binding)
        needed = buffer_bytes(blocks, limits, gpu.binding)
        made = {name: gpu.buffer(nbytes, f"room for {name}") for name, nbytes in needed.items()}
        self.x, self.normed = RowBuffer(made["x"], w.x), RowBuffer(made["normed"], w.x)
        self.qkv = RowBuffer(made["qkv"], w.qkv)
        self.mixed = {n: RowBuffer(made[f"mixed {n}"], width) for n, width in w.mixed.items()}
        self.head_gate = {n: RowBuffer(made[f"head gate {n}"], w.mixed[n]) for n in w.gated}
        self.gate = {n: RowBuffer(made[f"gate {n}"], width) for n, width in w.gate.items()}
        self.up = {n: RowBuffer(made[f"up {n}"], width) for n, width in w.gate.items()}
        self.experts = {each: expert_scratch(made, each, limits.rows, blocks.model.width) for each in w.experts}
        self.shared_gate = RowBuffer(made["shared gate"], 1)
        self.logits = RowBuffer(made["logits"], blocks.model.vocab)
        self.partials, self.packed, self.scales = (made[name] for name in ("partials", "packed", "scales"))
        self.batches = [made[f"batch {i}"] for i in range(len(blocks.row_kinds))]
        self.tables = {kind.kv_group: made[f"tables {kind.kv_group}"] for kind in blocks.row_kinds}
        self.positions = {key: made[f"positions {i}"] for i, key in enumerate(blocks.position_widths)}
        self.nothing = made["nothing"]
