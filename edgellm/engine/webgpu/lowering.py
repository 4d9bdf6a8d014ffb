"""From the blocks of a description to dispatches.

For few rows (decode) a matmul is matrix × vector, with the norm before it and the activation after it in the same
dispatch. For many rows (prefill) it is matrix × matrix, and norms and activations are dispatches of their own. In
decode a layer takes five dispatches. One more each merges the spans of a long sequence or adds sinks, norms x by
LayerNorm, norms whole projections, and norms what a block gives; a gate behind attention takes two more. A mixture of
experts takes six or seven, and some for what is shared.

The CPU's list of ops is not lowered: it is fused for what costs time on a CPU, barriers and passes over memory.
"""

from collections.abc import Sequence
from typing import Literal

from edgellm.engine.webgpu.attention import AttentionLowering
from edgellm.engine.webgpu.blocks import GPUAttention, GPUFeedForward, GPUNorm, GPUOutputHead
from edgellm.engine.webgpu.commands import Buffer, Dispatch, RowBuffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.expert_blocks import GPUMixture
from edgellm.engine.webgpu.experts import ExpertLowering
from edgellm.engine.webgpu.kv_pages import KVBuffer
from edgellm.engine.webgpu.matmul import Epilogue, MatmulLowering
from edgellm.engine.webgpu.offloaded import OffloadedBlocks
from edgellm.engine.webgpu.row_ops import RowOps
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.weights import Matrix

BatchKind = Literal["single", "few", "many"]
"""The batches that dispatches are for: few rows, each of another sequence; few rows; any number of rows."""

FEW_ROWS = 4
"""Up to this many rows, reading the weights once for each row takes less time than unpacking them into tiles."""


class BlockLowering:
    """Makes the dispatches of blocks, whose matrices are uploaded, with KV pages of a type."""

    def __init__(self, gpu: GPUContext, blocks: OffloadedBlocks, scratch: Scratch, kv_type: str) -> None:
        self._model, self._scratch = blocks.model, scratch
        self._ops = RowOps(gpu, blocks.model.width, scratch)
        self._matmuls = MatmulLowering(gpu, scratch, self._ops)
        self._experts = ExpertLowering(gpu, scratch, self._ops, self._matmuls, blocks.model.residual_scale)
        self._attention = AttentionLowering(gpu, blocks, scratch, self._ops, kv_type)

    def attention(self, block: GPUAttention, kv: Sequence[KVBuffer], kind: BatchKind) -> list[Dispatch]:
        """x += output(attention(norm(x))), with keys and values in `kv`."""
        s, few, width = self._scratch, kind != "many", block.settings.attention_width
        result = s.head_gate[width] if block.gate else s.mixed[width]
        return [
            *self._matmuls.linear(few, block.qkv, s.x, s.qkv, Epilogue(block.qkv_bias), norm=block.norm),
            *self._attention.dispatches(block, kv, kind == "single"),
            *self._gate_heads(block, few),
            *self._add_to_x(few, block.output, result, block.output_bias, block.post_norm),
        ]

    def _gate_heads(self, block: GPUAttention, few: bool) -> list[Dispatch]:
        """head_gate = sigmoid(gate(norm(x))) · the result of the heads; nothing without a gate."""
        if not block.gate:
            return []
        s, width = self._scratch, block.settings.attention_width
        gate, (x, norm) = s.head_gate[width], self._after_norm(block.norm, few)
        return [
            *self._matmuls.linear(few, block.gate, x, gate, Epilogue(block.gate_bias), norm=norm),
            self._ops.activate_by("f_sigmoid", gate, s.mixed[width]),
        ]

    def feed_forward(self, block: GPUFeedForward, kind: BatchKind) -> list[Dispatch]:
        """x += down(f(gate(norm(x))) · up(norm(x))), or down(f(up(norm(x)))) without a gate; then x times its scale."""
        s, few = self._scratch, kind != "many"
        (columns,) = {matrix.columns for matrix in block.down}
        gate = s.gate[columns]
        is_fused = block.norm is None or block.norm.is_fused
        if few and is_fused and len(block.gate_up) == 2 and not any(block.gate_up_bias):
            steps = self._matmuls.matvec(block.gate_up, s.x, gate, norm=block.norm, gated=block.activation)
        else:
            steps = self._gate_and_up(block, few, gate, s.up[columns])
        steps += self._add_to_x(few, block.down, gate, block.down_bias, block.post_norm)
        return [*steps, *self._scale(block.output_scale)]

    def mixture(self, block: GPUMixture, kind: BatchKind) -> list[Dispatch]:
        """x += a mixture of experts of norm(x); then x times its scale."""
        return [*self._experts.dispatches(block, kind != "many"), *self._scale(block.output_scale)]

    def _scale(self, output_scale: float) -> list[Dispatch]:
        """x times the scale of a layer."""
        return [] if output_scale == 1.0 else [self._ops.scale(output_scale)]

    def output_head(self, block: GPUOutputHead, kind: BatchKind) -> list[Dispatch]:
        """The logits of the rows whose logits are wanted."""
        s, model = self._scratch, self._model
        epilogue = Epilogue(block.bias, factor=model.logit_scale, soft_cap=model.logit_soft_cap or 0.0)
        few = kind != "many"
        return self._matmuls.linear(few, block.output, s.x, s.logits, epilogue, norm=block.norm, gathered=True)

    def _gate_and_up(self, block: GPUFeedForward, few: bool, gate: RowBuffer, up: RowBuffer) -> list[Dispatch]:
        """gate = f(gate(norm(x))) · up(norm(x)), or f(up(norm(x))), in a dispatch for each operation."""
        x, norm, steps = self._scratch.x, block.norm, list[Dispatch]()
        for matrix, bias, y in zip(block.gate_up, block.gate_up_bias, (gate, up), strict=False):
            steps += self._matmuls.linear(few, [matrix], x, y, Epilogue(bias), norm=norm)
            x, norm = self._after_norm(norm, few) if norm else (x, None)
        return [
            *steps,
            self._ops.activate(block.activation, gate, up if len(block.gate_up) == 2 else None),
        ]

    def _after_norm(self, norm: GPUNorm | None, few: bool) -> tuple[RowBuffer, GPUNorm | None]:
        """What a second matmul of norm(x) reads, and the norm that it still has to compute.

        Few rows are normed in each matvec, if it can; many rows are normed once, before the first matmul.
        """
        return (self._scratch.x, norm) if norm is None or (few and norm.is_fused) else (self._scratch.normed, None)

    def _add_to_x(
        self, few: bool, matrices: Sequence[Matrix], h: RowBuffer, bias: Buffer | None, norm: GPUNorm | None
    ) -> list[Dispatch]:
        """x += residual_scale · norm(W h + b)."""
        s, factor = self._scratch, self._model.residual_scale
        if norm is None:
            return self._matmuls.linear(few, matrices, h, s.x, Epilogue(bias, added=True, factor=factor))
        return [
            *self._matmuls.linear(few, matrices, h, s.normed, Epilogue(bias)),
            self._ops.add_norm(s.normed, norm, factor),
        ]
