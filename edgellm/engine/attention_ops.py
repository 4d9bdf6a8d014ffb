"""The ops of an attention layer."""

from dataclasses import dataclass
from typing import Any

from edgellm.arch.blocks import Attention, AttentionSettings, GateFunction
from edgellm.arch.description import Description
from edgellm.arch.positions import AttentionTemperature, Rope, RopeType
from edgellm.engine.activations import AttentionBuffers, MatmulInput, float_buffer
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from edgellm.gguf import Tensor
from kquants import records
from kquants.kv_layout import (
    ATTENTION_UNITS,
    ATTENTION_UNITS_PER_ROW,
    MERGE_UNITS,
    attention_scratch,
    layer_page_bytes,
)


@dataclass(frozen=True)
class KVPlace:
    """Where the keys and values of a layer lie: `page_offset` bytes into the pages of a KV group."""

    group: int
    page_offset: int


class KVLayout:
    """The places of the layers' keys and values in the pages; `page_bytes` are the bytes of a page of each KV group.

    A head that reads those of its target has the target's places, and no pages.
    """

    def __init__(self, model: Description, kv_type: str) -> None:
        self._groups, self._kv_type = model.kv_groups, kv_type
        self.page_bytes = [0] * len(model.kv_groups)
        self._places: dict[int, KVPlace] = {}
        if model.target_attention:
            for i, each in enumerate(model.target_attention):
                self.place(i, each)
            self.page_bytes = [0] * len(model.kv_groups)

    def place(self, layer: int, attention: AttentionSettings) -> KVPlace:
        """The place of a layer's keys and values: its own, new behind those of earlier layers, or another layer's."""
        if attention.kv_layer is not None:
            return self._places[attention.kv_layer]
        group = self._groups.index(attention.window)
        self._places[layer] = KVPlace(group, self.page_bytes[group])
        self.page_bytes[group] += layer_page_bytes(
            attention.kv_heads, attention.key_dim, attention.stored_value_dim, self._kv_type
        )
        return self._places[layer]


def rope_words(rope: Rope | None, tables: tuple[Rope | AttentionTemperature, ...]) -> dict[str, Any]:
    """The words of a record that say which values of a head are rotated, and by which of the position tables."""
    if rope is None:
        return {"rope_dim": 0, "rope_type": records.ROPE_NORM, "rope_table": 0}
    rope_type = records.ROPE_NEOX if rope.rope_type is RopeType.NEOX else records.ROPE_NORM
    return {"rope_dim": rope.width, "rope_type": rope_type, "rope_table": tables.index(rope)}


def attend(
    ops: OpWriter,
    pages: str,
    settings: AttentionSettings,
    place: KVPlace,
    q: Buffer,
    out: Buffer,
    partials: Buffer,
    q_outputs: bool,
    sinks: Tensor | None = None,
    has_slots: bool = False,
) -> None:
    """out = attention of q over KV pages of the kind `pages`; see `kquants.records.AttentionOp`."""
    arguments = records.AttentionOp(
        q=q,
        q_bytes=q.row_bytes,
        out=out,
        out_bytes=out.row_bytes,
        heads=settings.heads,
        kv_heads=settings.kv_heads,
        key_dim=settings.key_dim,
        value_dim=settings.value_dim,
        kv_group=place.group,
        page_offset=place.page_offset,
        window=settings.window or 0,
        chunked=int(settings.chunked),
        scale=settings.scale,
        soft_cap=settings.soft_cap or 0.0,
        sinks=sinks,
        partials=partials,
        max_partials=partials.rows,
        q_outputs=int(q_outputs),
        has_slots=int(has_slots),
    )
    ops.need_scratch(attention_scratch(settings.key_dim, settings.value_dim))
    ops.add(f"attention_{pages}", arguments, units=ATTENTION_UNITS, per_row=ATTENTION_UNITS_PER_ROW)
    ops.add("attention_merge", arguments, units=MERGE_UNITS)


class AttentionOps:
    """Appends the ops of attention layers of a model to a program."""

    def __init__(self, model: Description, kv_type: str, ops: OpWriter) -> None:
        self._tables, self._kv_type, self._ops = model.position_tables, kv_type, ops
        self._norms = NormOps(ops)

    def project(self, attention: Attention, h: MatmulInput, b: AttentionBuffers) -> None:
        """q, k, v and the gate from h, with norms of heads before RoPE."""
        q = float_buffer("q_and_gate", 2 * attention.q_width) if attention.gate_in_q else b.q
        targets = [(attention.q, q), (attention.k, b.k), (attention.v, b.v), (attention.gate, b.gate)]
        self._ops.linear(h, *[(linear, buffer) for linear, buffer in targets if linear])
        if attention.gate_in_q:
            self._split_gate(attention, q, b)
        if attention.v_norm and attention.k:
            source = b.v if attention.v else b.k
            self._norms.norm_heads(source, attention.v_norm, attention.kv_heads, attention.value_dim, b.v)
        if not attention.norm_after_rope:
            self._norm_heads(attention, b)

    def _split_gate(self, attention: Attention, both: Buffer, b: AttentionBuffers) -> None:
        arguments = records.SplitGateOp(
            x=both,
            x_bytes=both.row_bytes,
            heads=attention.heads,
            head_dim=attention.key_dim,
            q=b.q,
            q_bytes=b.q.row_bytes,
            gate=b.gate,
            gate_bytes=b.gate.row_bytes,
        )
        self._ops.add("split_gate", arguments, per_row=attention.heads)

    def _norm_heads(self, attention: Attention, b: AttentionBuffers) -> None:
        if attention.q_norm:
            self._norms.norm_heads(b.q, attention.q_norm, attention.heads, attention.key_dim)
        if attention.k_norm and attention.k:
            self._norms.norm_heads(
                b.k, attention.k_norm, attention.kv_heads, attention.key_dim, barrier=attention.q_norm is None
            )

    def store(self, attention: Attention, place: KVPlace, b: AttentionBuffers) -> None:
        """Rotate q and k, and write k and v to the KV pages."""
        rope = rope_words(attention.rope, self._tables)
        if attention.norm_after_rope and attention.rope:
            self._rope_store(self._rotated(attention, attention.heads, b.q) | rope)
            if attention.k:
                self._rope_store(self._rotated(attention, attention.kv_heads, b.k) | rope, barrier=False)
            rope |= {"rope_dim": 0}
        if attention.norm_after_rope:
            self._norm_heads(attention, b)
        stored = self._rotated(attention, attention.heads, b.q) | rope
        if attention.k:
            stored |= {"k": b.k, "k_bytes": b.k.row_bytes, "v": b.v, "v_bytes": b.v.row_bytes}
            stored |= {"kv_heads": attention.kv_heads, "kv_group": place.group, "page_offset": place.page_offset}
        if attention.temperature:
            stored["q_factor_table"] = self._tables.index(attention.temperature)
        if attention.k or attention.temperature or stored["rope_dim"]:
            self._rope_store(stored)

    def _rotated(self, attention: Attention, heads: int, x: Buffer) -> dict[str, Any]:
        """The words of a RopeStoreOp that rotates the heads of x in place of q, and stores nothing."""
        nothing = dict.fromkeys(("k_bytes", "v_bytes", "kv_group", "page_offset"), 0) | {"k": None, "v": None}
        sizes = {"heads": heads, "kv_heads": heads, "key_dim": attention.key_dim, "value_dim": attention.value_dim}
        return nothing | sizes | {"q": x, "q_bytes": x.row_bytes, "q_factor_table": -1}

    def _rope_store(self, words: dict[str, Any], barrier: bool = True) -> None:
        arguments = records.RopeStoreOp(**words)
        self._ops.add(f"rope_store_{self._kv_type}", arguments, per_row=arguments.kv_heads, barrier=barrier)

    def attend(self, attention: Attention, place: KVPlace, b: AttentionBuffers, q_outputs: bool) -> None:
        """result = attention of q over the KV pages, times the sigmoid of the gate; quantized for the output matrix.

        With `q_outputs`, q has the rows of wanted logits alone.
        """
        out = b.result.f32
        attend(self._ops, self._kv_type, attention, place, b.q, out, b.partials, q_outputs, attention.sinks)
        if attention.has_gate and attention.gate_function is GateFunction.SIGMOID:
            self._ops.sigmoid_gate(out, b.gate, attention.attention_width)
        elif attention.has_gate:
            group = attention.attention_width // attention.gate_width
            self._ops.softplus_gate(out, b.gate, attention.attention_width, group)
        self._ops.quantize(b.result, [attention.output])
