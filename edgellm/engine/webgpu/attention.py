"""Attention as dispatches: norms of heads and RoPE, keys and values to their pages, scores and values, merge."""

from collections.abc import Sequence

from edgellm.arch.blocks import Attention
from edgellm.arch.positions import RopeType
from edgellm.engine.webgpu.blocks import GPUAttention
from edgellm.engine.webgpu.commands import Buffer, Dispatch, Grid
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.kv_pages import KVBuffer
from edgellm.engine.webgpu.offloaded import LONG_HEAD, OffloadedBlocks, RowKind
from edgellm.engine.webgpu.row_ops import LANES, RowOps
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.shaders import Constant


class AttentionLowering:
    """Makes the dispatches of attention layers, with KV pages of a type."""

    def __init__(self, gpu: GPUContext, blocks: OffloadedBlocks, scratch: Scratch, ops: RowOps, kv_type: str) -> None:
        self._gpu, self._blocks, self._scratch, self._ops = gpu, blocks, scratch, ops
        self._load = ["tanh", "kv_range", f"kv_{kv_type}"]
        self._store = ["rounding", f"store_{kv_type}", "heads"]

    def dispatches(self, block: GPUAttention, kv: Sequence[KVBuffer], single: bool) -> list[Dispatch]:
        """mixed = attention(q, k, v), with keys and values in `kv`.

        With `single`, each row is the only one of its sequence, and all but the merge is one dispatch.
        """
        settings, steps = block.settings, self._norm_projections(block)
        for i, part in enumerate(kv):
            kv_range = self._gpu.uniform([part.first, part.pages, int(i > 0), int(i < len(kv) - 1)])
            steps += (self._fused if single else self._in_two)(block, part.buffer, kv_range)
        s, kind = self._scratch, self._kind(settings)
        constants = _sizes(settings, s) | {"SINKS": block.sinks is not None}
        grid = (settings.heads, "rows" if block.sinks else f"merged rows {kind}", 1)
        buffers = [s.batches[kind], s.partials, self._mixed(settings), block.sinks or s.nothing]
        return [*steps, self._ops.dispatch("merge", constants, buffers, grid)]

    def _norm_projections(self, block: GPUAttention) -> list[Dispatch]:
        """q and k normed as a whole; nothing if their heads are, or none."""
        s, settings, norms = self._scratch, block.settings, block.projection_norms
        if norms is None:
            return []
        constants: dict[str, Constant] = {
            "QKV_STRIDE": s.qkv.width,
            "Q_WIDTH": settings.q_width,
            "K_WIDTH": settings.k_width,
            "Q_EPS": norms.q_eps,
            "K_EPS": norms.k_eps,
        }
        return [self._ops.dispatch("norm_projections", constants, [norms.weights, s.qkv.buffer], ("rows", 2, 1))]

    def _fused(self, block: GPUAttention, kv: Buffer, kv_range: Buffer) -> list[Dispatch]:
        """Norms and rotations, storing and attention at once."""
        s, settings, dispatch = self._scratch, block.settings, self._ops.dispatch
        attended = _attended(block, self._blocks.row_kind(settings), single=True)
        constants, grid = _sizes(settings, s) | _rotation(block) | attended, self._grid(settings)
        buffers = [*self._heads(block, kv), self._mixed(settings), s.partials, kv_range]
        files = [*self._load, *self._store, "attend"]
        return [dispatch("attention_single", constants, buffers, grid, files, lanes=_lanes(settings))]

    def _in_two(self, block: GPUAttention, kv: Buffer, kv_range: Buffer) -> list[Dispatch]:
        """Norms, rotations and storing, then attention."""
        s, settings, dispatch = self._scratch, block.settings, self._ops.dispatch
        sizes, each_head = _sizes(settings, s), (settings.heads + 2 * settings.kv_heads, "rows", 1)
        read = [*self._rows(settings), s.qkv.buffer, kv, self._mixed(settings), s.partials, kv_range]
        attended, grid = _attended(block, self._blocks.row_kind(settings), single=False), self._grid(settings)
        files = [*self._load, *self._store]
        return [
            dispatch("prepare", sizes | _rotation(block), [*self._heads(block, kv), kv_range], each_head, files),
            dispatch("attention", sizes | attended, read, grid, [*self._load, "attend"], lanes=_lanes(settings)),
        ]

    def _heads(self, block: GPUAttention, kv: Buffer) -> list[Buffer]:
        """The buffers of the shaders that take heads of q, k and v (see heads.wgsl)."""
        s, settings = self._scratch, block.settings
        positions = s.positions.get(self._blocks.position_key(settings), s.nothing)
        norms = block.head_norms.weights if block.head_norms else s.nothing
        return [*self._rows(settings), positions, norms, s.qkv.buffer, kv]

    def _rows(self, settings: Attention) -> list[Buffer]:
        """The rows of the batch, and the page tables."""
        s = self._scratch
        return [s.batches[self._kind(settings)], s.tables[self._blocks.row_kind(settings).kv_group]]

    def _grid(self, settings: Attention) -> Grid:
        kind, own = self._kind(settings), self._blocks.row_kind(settings)
        return f"tiles {kind}", settings.kv_heads * -(-own.share // min(own.share, own.queries)), f"spans {kind}"

    def _kind(self, settings: Attention) -> int:
        return self._blocks.row_kinds.index(self._blocks.row_kind(settings))

    def _mixed(self, settings: Attention) -> Buffer:
        return self._scratch.mixed[settings.attention_width].buffer


def _sizes(settings: Attention, s: Scratch) -> dict[str, Constant]:
    return {
        "HEADS": settings.heads,
        "KV_HEADS": settings.kv_heads,
        "HEAD_DIM": settings.key_dim,
        "QKV_STRIDE": s.qkv.width,
        "MIXED_STRIDE": s.mixed[settings.attention_width].width,
    }


def _rotation(block: GPUAttention) -> dict[str, Constant]:
    """The constants of heads.wgsl."""
    rope, norms = block.settings.rope, block.head_norms
    return {
        "ROPE_DIM": rope.width if rope else 0,
        "NEOX": rope is not None and rope.rope_type is RopeType.NEOX,
        "HEAD_NORMS": norms is not None and block.settings.q_norm is not None,
        "V_NORM": block.settings.v_norm is not None,
        "NORM_AFTER_ROPE": block.settings.norm_after_rope,
        "TEMPERATURE": block.settings.temperature is not None,
        "Q_EPS": norms.q_eps if norms else 0.0,
        "K_EPS": norms.k_eps if norms else 0.0,
        "V_EPS": norms.v_eps if norms else 0.0,
    }


def _lanes(settings: Attention) -> int:
    return LANES if settings.key_dim <= LONG_HEAD else 2 * LANES


def _attended(block: GPUAttention, kind: RowKind, single: bool) -> dict[str, Constant]:
    """The constants of attend.wgsl."""
    settings, vec4s = block.settings, block.settings.key_dim // 4
    return {
        "SCALE": settings.scale,
        "SOFT_CAP": settings.soft_cap or 0.0,
        "SINKS": block.sinks is not None,
        "SUBSETS": next(n for n in (8, 4, 2, 1) if n * vec4s <= _lanes(settings)),
        "QUERIES": 4 if single and kind.share <= 4 else kind.queries,
    }
