"""From the blocks of a description to dispatches.

For few rows (decode) a matmul is matrix × vector, with the norm before it and SwiGLU after it in the same dispatch.
For many rows (prefill) it is matrix × matrix, and norms and SwiGLU are dispatches of their own. In decode a layer takes
five dispatches, and one more if its sequence has several pages, which are split into spans.

The CPU's list of ops is not lowered: it is fused for what costs time on a CPU, barriers and passes over memory.
"""

from collections.abc import Sequence
from typing import Literal

from edgellm.arch.description import Description, RopeType
from edgellm.engine.webgpu.batch_layout import QUERIES
from edgellm.engine.webgpu.blocks import GPUAttention, GPUFeedForward, GPUOutputHead
from edgellm.engine.webgpu.commands import Dispatch
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.kv_pages import KVBuffer
from edgellm.engine.webgpu.matmul import LANES, MatmulLowering
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.shaders import Constant

BatchKind = Literal["single", "few", "many"]
"""The batches that dispatches are for: few rows, each of another sequence; few rows; any number of rows."""

FEW_ROWS = 4
"""Up to this many rows, reading the weights once for each row takes less time than unpacking them into tiles."""


class BlockLowering:
    """Makes the dispatches of blocks, whose matrices are uploaded, with KV pages of a type."""

    def __init__(self, gpu: GPUContext, model: Description, scratch: Scratch, kv_type: str) -> None:
        self._gpu, self._model, self._scratch, self._kv_type = gpu, model, scratch, kv_type
        self._matmuls = MatmulLowering(gpu, model, scratch)

    def mixer(self, block: GPUAttention, kv: Sequence[KVBuffer], kind: BatchKind) -> list[Dispatch]:
        """x += output(attention(norm(x))), with keys and values in `kv`."""
        s, few, linear = self._scratch, kind != "many", self._matmuls.linear
        return [
            *linear(few, block.qkv, s.x, s.qkv, norm=block.norm, bias=block.qkv_bias),
            *self._attention(block, kv, kind == "single"),
            *linear(few, block.output, s.mixed, s.x, bias=block.output_bias, added=True),
        ]

    def feed_forward(self, block: GPUFeedForward, kind: BatchKind) -> list[Dispatch]:
        """x += down(silu(gate(norm(x))) · up(norm(x)))."""
        s, (gate, up), few, linear = self._scratch, block.gate_up, kind != "many", self._matmuls.linear
        if few and not block.gate_up_bias:
            steps = self._matmuls.matvec(block.gate_up, s.x, s.gate, norm=block.norm, gated=True)
        else:
            gate_bias, up_bias = block.gate_up_bias or (None, None)
            # Few rows are normed in each matvec; many rows are normed once, before the first matmul.
            x, norm = (s.x, block.norm) if few else (s.normed, None)
            steps = [
                *linear(few, [gate], s.x, s.gate, norm=block.norm, bias=gate_bias),
                *linear(few, [up], x, s.up, norm=norm, bias=up_bias),
                self._swiglu(),
            ]
        return [*steps, *linear(few, block.down, s.gate, s.x, bias=block.down_bias, added=True)]

    def output_head(self, block: GPUOutputHead, kind: BatchKind) -> list[Dispatch]:
        """The logits of the rows whose logits are wanted."""
        s, few = self._scratch, kind != "many"
        return self._matmuls.linear(few, block.output, s.x, s.logits, norm=block.norm, gathered=True)

    def _swiglu(self) -> Dispatch:
        """gate = silu(gate) · up."""
        s = self._scratch
        vec4s = s.gate.width // 4
        buffers, grid = [s.gate.buffer, s.up.buffer], (-(-vec4s // LANES), "rows", 1)
        return self._matmuls.dispatch("swiglu", {"VEC4S": vec4s}, buffers, grid)

    def _attention(self, block: GPUAttention, kv: Sequence[KVBuffer], single: bool) -> list[Dispatch]:
        """Norms of heads, RoPE, and storing of keys and values; attention; the merge of spans.

        With `single`, each row is the only one of its sequence, and all but the merge is one dispatch.
        """
        s, model, dispatch = self._scratch, self._model, self._matmuls.dispatch
        heads = self._head_sizes()
        prepared: dict[str, Constant] = {
            "ROPE_DIM": 2 * len(model.rope.frequencies),
            "NEOX": model.rope.rope_type is RopeType.NEOX,
            "HEAD_NORMS": block.head_norms is not None,
            "EPS": model.eps,
        }
        attended = self._attention_sizes(single)
        load, store = ["kv_range", f"kv_{self._kv_type}"], ["rounding", f"store_{self._kv_type}", "heads"]
        batch, norms, results = [s.batch, s.tables], block.head_norms or s.nothing, [s.mixed.buffer, s.partials]
        group = model.heads // model.kv_heads
        grid = ("tiles", model.kv_heads * -(-group // min(group, QUERIES)), "spans")
        each_head = (model.heads + 2 * model.kv_heads, "rows", 1)
        steps = []
        for i, (buffer, first, pages) in enumerate(kv):
            kv_range = self._gpu.uniform([first, pages, int(i > 0), int(i < len(kv) - 1)])
            taken = [*batch, s.cos_sin, norms, s.qkv.buffer, buffer]
            if single:
                constants, files = heads | prepared | attended, [*load, *store, "attend"]
                steps.append(dispatch("attention_single", constants, [*taken, *results, kv_range], grid, files))
            else:
                read = [*batch, s.qkv.buffer, buffer, *results, kv_range]
                steps += [
                    dispatch("prepare", heads | prepared, [*taken, kv_range], each_head, [*load, *store]),
                    dispatch("attention", heads | attended, read, grid, [*load, "attend"]),
                ]
        merge = dispatch("merge", heads, [s.batch, s.partials, s.mixed.buffer], (model.heads, "merged rows", 1))
        return [*steps, merge]

    def _head_sizes(self) -> dict[str, Constant]:
        s, model = self._scratch, self._model
        return {
            "HEADS": model.heads,
            "KV_HEADS": model.kv_heads,
            "HEAD_DIM": model.head_dim,
            "QKV_STRIDE": s.qkv.width,
            "MIXED_STRIDE": s.mixed.width,
        }

    def _attention_sizes(self, single: bool) -> dict[str, Constant]:
        model = self._model
        group, vec4s = model.heads // model.kv_heads, model.head_dim // 4
        subsets = next(n for n in (8, 4, 2, 1) if n * vec4s <= LANES)
        queries = 4 if single and group <= 4 else QUERIES
        return {"SCALE": model.head_dim**-0.5, "SUBSETS": subsets, "QUERIES": queries}
