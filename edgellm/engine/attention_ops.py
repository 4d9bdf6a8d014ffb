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
    """The places of the layers' keys and values in the pages; `page_bytes` are the bytes of a page of each KV group."""

    def __init__(self, model: Description, kv_type: str) -> None:
        self._groups, self._kv_type = model.kv_groups, kv_type
        self.page_bytes = [0] * len(model.kv_groups)
        self._places: dict[int, KVPlace] = {}

    def place(self, layer: int, mixer: AttentionSettings) -> KVPlace:
        """The place of a layer's keys and values: its own, new behind those of earlier layers, or another layer's."""
        if mixer.kv_layer is not None:
            return self._places[mixer.kv_layer]
        group = self._groups.index(mixer.window)
        self._places[layer] = KVPlace(group, self.page_bytes[group])
        self.page_bytes[group] += layer_page_bytes(mixer.kv_heads, mixer.key_dim, mixer.stored_value_dim, self._kv_type)
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

    def project(self, mixer: Attention, h: MatmulInput, b: AttentionBuffers) -> None:
        """q, k, v and the gate from h, with norms of heads before RoPE."""
        q = float_buffer("q_and_gate", 2 * mixer.q_width) if mixer.gate_in_q else b.q
        targets = [(mixer.q, q), (mixer.k, b.k), (mixer.v, b.v), (mixer.gate, b.gate)]
        self._ops.linear(h, *[(linear, buffer) for linear, buffer in targets if linear])
        if mixer.gate_in_q:
            self._split_gate(mixer, q, b)
        if mixer.v_norm and mixer.k:
            source = b.v if mixer.v else b.k
            self._norms.norm_heads(source, mixer.v_norm, mixer.kv_heads, mixer.value_dim, b.v)
        if not mixer.norm_after_rope:
            self._norm_heads(mixer, b)

    def _split_gate(self, mixer: Attention, both: Buffer, b: AttentionBuffers) -> None:
        arguments = records.SplitGateOp(
            x=both,
            x_bytes=both.row_bytes,
            heads=mixer.heads,
            head_dim=mixer.key_dim,
            q=b.q,
            q_bytes=b.q.row_bytes,
            gate=b.gate,
            gate_bytes=b.gate.row_bytes,
        )
        self._ops.add("split_gate", arguments, per_row=mixer.heads)

    def _norm_heads(self, mixer: Attention, b: AttentionBuffers) -> None:
        if mixer.q_norm:
            self._norms.norm_heads(b.q, mixer.q_norm, mixer.heads, mixer.key_dim)
        if mixer.k_norm and mixer.k:
            self._norms.norm_heads(b.k, mixer.k_norm, mixer.kv_heads, mixer.key_dim, barrier=mixer.q_norm is None)

    def store(self, mixer: Attention, place: KVPlace, b: AttentionBuffers) -> None:
        """Rotate q and k, and write k and v to the KV pages."""
        rope = rope_words(mixer.rope, self._tables)
        if mixer.norm_after_rope and mixer.rope:
            self._rope_store(self._rotated(mixer, mixer.heads, b.q) | rope)
            if mixer.k:
                self._rope_store(self._rotated(mixer, mixer.kv_heads, b.k) | rope, barrier=False)
            rope |= {"rope_dim": 0}
        if mixer.norm_after_rope:
            self._norm_heads(mixer, b)
        stored = self._rotated(mixer, mixer.heads, b.q) | rope
        if mixer.k:
            stored |= {"k": b.k, "k_bytes": b.k.row_bytes, "v": b.v, "v_bytes": b.v.row_bytes}
            stored |= {"kv_heads": mixer.kv_heads, "kv_group": place.group, "page_offset": place.page_offset}
        if mixer.temperature:
            stored["q_factor_table"] = self._tables.index(mixer.temperature)
        if mixer.k or mixer.temperature or stored["rope_dim"]:
            self._rope_store(stored)

    def _rotated(self, mixer: Attention, heads: int, x: Buffer) -> dict[str, Any]:
        """The words of a RopeStoreOp that rotates the heads of x in place of q, and stores nothing."""
        nothing = dict.fromkeys(("k_bytes", "v_bytes", "kv_group", "page_offset"), 0) | {"k": None, "v": None}
        sizes = {"heads": heads, "kv_heads": heads, "key_dim": mixer.key_dim, "value_dim": mixer.value_dim}
        return nothing | sizes | {"q": x, "q_bytes": x.row_bytes, "q_factor_table": -1}

    def _rope_store(self, words: dict[str, Any], barrier: bool = True) -> None:
        arguments = records.RopeStoreOp(**words)
        self._ops.add(f"rope_store_{self._kv_type}", arguments, per_row=arguments.kv_heads, barrier=barrier)

    def attend(self, mixer: Attention, place: KVPlace, b: AttentionBuffers, q_outputs: bool) -> None:
        """result = attention of q over the KV pages, times the sigmoid of the gate; quantized for the output matrix.

        With `q_outputs`, q has the rows of wanted logits alone.
        """
        out = b.result.f32
        attend(self._ops, self._kv_type, mixer, place, b.q, out, b.partials, q_outputs, mixer.sinks)
        if mixer.has_gate and mixer.gate_function is GateFunction.SIGMOID:
            self._ops.sigmoid_gate(out, b.gate, mixer.attention_width)
        elif mixer.has_gate:
            group = mixer.attention_width // mixer.gate_width
            self._ops.softplus_gate(out, b.gate, mixer.attention_width, group)
        self._ops.quantize(b.result, [mixer.output])
