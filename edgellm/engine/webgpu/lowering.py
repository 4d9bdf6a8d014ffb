"""From the blocks of a description to dispatches.

For few rows (decode) products are matrix × vector, with the norm before and SwiGLU behind them in the same dispatch;
for many rows (prefill) they are matrix × matrix, and norms and SwiGLU are on their own. For a token a layer takes five
dispatches, and one more where its sequence has several pages, which are shared out.

A GPU does not take over the CPU's list of ops: what that one fuses (meetings of threads, passes over memory) is not
what saves time here, and a block says in a few tensors what its ops say in many.
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
"""What dispatches are for: few rows, each of a sequence of its own; few rows; any number of them."""

FEW_ROWS = 4
"""Up to so many rows, reading the weights once for each is less work than unpacking them into tiles."""


class BlockLowering(MatmulLowering):
    """Makes the steps of blocks on a GPU, from matrices that were uploaded and KV cells of a type."""

    def __init__(self, gpu: GPUContext, model: Description, scratch: Scratch, kv_type: str) -> None:
        super().__init__(gpu, model, scratch)
        self.kv_type = kv_type

    def mixer(self, block: GPUAttention, cells: Sequence[KVBuffer], rows: BatchKind) -> list[Dispatch]:
        """x += output(attention(norm(x))), with keys and values in `cells`."""
        s, few = self.scratch, rows != "many"
        return [
            *self.product(few, block.qkv, s.x, s.qkv, norm=block.norm, bias=block.qkv_bias),
            *self.attention(block, cells, rows == "single"),
            *self.product(few, block.output, s.mixed, s.x, bias=block.output_bias, added=True),
        ]

    def feed_forward(self, block: GPUFeedForward, rows: BatchKind) -> list[Dispatch]:
        """x += down(silu(gate(norm(x))) · up(norm(x)))."""
        s, (gate, up), few = self.scratch, block.gate_up, rows != "many"
        if few and not block.gate_up_bias:
            steps = self.matvec(block.gate_up, s.x, s.gate, norm=block.norm, gated=True)
        else:
            gate_bias, up_bias = block.gate_up_bias or (None, None)
            again = (s.x, block.norm) if few else (s.normed, None)  # for many rows the norm is there already
            steps = [
                *self.product(few, [gate], s.x, s.gate, norm=block.norm, bias=gate_bias),
                *self.product(few, [up], again[0], s.up, norm=again[1], bias=up_bias),
                self.swiglu(),
            ]
        down = self.product(few, block.down, s.gate, s.x, bias=block.down_bias, added=True)
        return [*steps, *down]

    def head(self, block: GPUOutputHead, rows: BatchKind) -> list[Dispatch]:
        """The logits of those rows for which they are wanted."""
        s, few = self.scratch, rows != "many"
        return self.product(few, block.output, s.x, s.logits, norm=block.norm, gathered=True)

    def swiglu(self) -> Dispatch:
        """gate = silu(gate) · up."""
        s = self.scratch
        quads = s.gate.width // 4
        return self.dispatch("swiglu", {"QUADS": quads}, [s.gate.buffer, s.up.buffer], (-(-quads // LANES), "rows", 1))

    def attention(self, block: GPUAttention, cells: Sequence[KVBuffer], single: bool) -> list[Dispatch]:
        """Norms of heads, RoPE, keys and values into their cells; attention; the merging of spans if there are several.

        `single`: each row is the only one of its sequence; then the first two are one.
        """
        s, model = self.scratch, self.model
        group, quads = model.heads // model.kv_heads, model.head_dim // 4
        heads: dict[str, Constant] = {
            "HEADS": model.heads,
            "KV_HEADS": model.kv_heads,
            "HEAD_DIM": model.head_dim,
            "QKV_STRIDE": s.qkv.width,
            "MIXED_STRIDE": s.mixed.width,
        }
        prepared: dict[str, Constant] = {
            "ROPE_DIM": 2 * len(model.rope.frequencies),
            "NEOX": model.rope.rope_type is RopeType.NEOX,
            "HEAD_NORMS": block.head_norms is not None,
            "EPS": model.eps,
        }
        subsets = next(n for n in (8, 4, 2, 1) if n * quads <= LANES)
        queries = 4 if single and group <= 4 else QUERIES
        attended: dict[str, Constant] = {"SCALE": model.head_dim**-0.5, "SUBSETS": subsets, "QUERIES": queries}
        load, store = ["piece", f"cells_{self.kv_type}"], ["rounding", f"store_{self.kv_type}", "heads"]
        known, norms, made = [s.batch, s.tables], block.head_norms or s.nothing, [s.mixed.buffer, s.parts]
        grid = ("tiles", model.kv_heads * -(-group // min(group, QUERIES)), "spans")
        each_head = (model.heads + 2 * model.kv_heads, "rows", 1)
        steps = []
        for i, (buffer, first, pages) in enumerate(cells):
            piece = self.gpu.uniform([first, pages, int(i > 0), int(i < len(cells) - 1)])
            taken = [*known, s.rotations, norms, s.qkv.buffer, buffer]
            if single:
                told, files = heads | prepared | attended, [*load, *store, "attend"]
                steps.append(self.dispatch("attention_single", told, [*taken, *made, piece], grid, files))
            else:
                read = [*known, s.qkv.buffer, buffer, *made, piece]
                steps += [
                    self.dispatch("prepare", heads | prepared, [*taken, piece], each_head, [*load, *store]),
                    self.dispatch("attention", heads | attended, read, grid, [*load, "attend"]),
                ]
        merge = self.dispatch("merge", heads, [s.batch, s.parts, s.mixed.buffer], (model.heads, "merged rows", 1))
        return [*steps, merge]
