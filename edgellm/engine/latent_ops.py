"""The ops of multi-head latent attention.

Each head is multiplied by matrices of its own: its plain values before attention, and its result after. A row has a
slot for each head, and the slots of a head follow each other (see `kquants.attention.latent_heads`), so that each
matrix is read once for all rows.
"""

from dataclasses import dataclass

from edgellm.arch.description import Description
from edgellm.arch.latent_attention import LatentAttention
from edgellm.engine.activations import MatmulInput, float_buffer
from edgellm.engine.attention_ops import KVPlace, attend, rope_words
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter, pieces
from edgellm.engine.program import Buffer
from kquants import records
from kquants.kv_layout import padded_head_dim, partial_bytes
from kquants.layout import PIECE


@dataclass(frozen=True)
class LatentBuffers:
    """The activations of a layer of latent attention.

    For each row of the batch: `q_a` is the low-rank projection of q, `q` the query heads as projected, `key` the latent
    with the values of RoPE, `result` the results of all heads, and `partials` holds partial softmaxes. For each slot,
    which is a head of a row: `plain` are the values of q without RoPE, `queries` what latents are compared with,
    `latents` the weighted sum of latents, and `values` the head's result. `groups` lists the slots of each head.
    """

    q_a: MatmulInput
    q: Buffer
    key: Buffer
    plain: MatmulInput
    queries: Buffer
    partials: Buffer
    latents: MatmulInput
    values: Buffer
    result: MatmulInput
    groups: Buffer

    @classmethod
    def of(cls, attention: LatentAttention, partials: int) -> "LatentBuffers":
        """The buffers for a layer's sizes, with room for `partials` partial softmaxes of all heads."""
        heads = attention.heads
        return cls(
            q_a=MatmulInput.named("q_a", attention.q_rank),
            q=float_buffer("q", attention.q_width),
            key=float_buffer("key", attention.key_dim),
            plain=MatmulInput.named("plain", attention.plain_dim).with_slots(heads),
            queries=float_buffer("queries", attention.key_dim).with_slots(heads),
            partials=Buffer("partials", heads * partial_bytes(padded_head_dim(attention.value_dim)), partials),
            latents=MatmulInput.named("latents", attention.value_dim).with_slots(heads),
            values=float_buffer("values", attention.head_value_dim).with_slots(heads),
            result=MatmulInput.named("attention", attention.attention_width),
            groups=Buffer(f"head_groups[{heads}]", records.group_list_bytes(heads), rows=1),
        )


class LatentOps:
    """Appends the ops of layers of latent attention to a program."""

    def __init__(self, model: Description, kv_type: str, ops: OpWriter) -> None:
        self._tables, self._kv_type, self._ops = model.position_tables, kv_type, ops
        self._norms = NormOps(ops)

    def project(self, attention: LatentAttention, h: MatmulInput, b: LatentBuffers) -> None:
        """The queries and the key of each row; the key is in the KV pages only after `store`."""
        if attention.q_a and attention.q_norm:
            self._ops.linear(h, (attention.q_a, b.q_a.f32), (attention.kv, b.key))
            self._norms.norm(b.q_a.f32, attention.q_norm, b.q_a, [attention.q])
            self._norms.norm_in_place(b.key, attention.kv_norm, attention.value_dim, barrier=False)
            self._ops.linear(b.q_a, (attention.q, b.q))
            self._split_heads(attention, b)
        else:
            self._ops.linear(h, (attention.q, b.q), (attention.kv, b.key))
            self._split_heads(attention, b)
            self._norms.norm_in_place(b.key, attention.kv_norm, attention.value_dim, barrier=False)
        self._group_heads(attention, b)
        self._ops.observe(b.plain, [attention.k_absorbed], b.groups, attention.heads)
        self._ops.grouped_matmul(attention.k_absorbed, b.plain, b.queries, b.groups, attention.heads)

    def _split_heads(self, attention: LatentAttention, b: LatentBuffers) -> None:
        f32, q8, super_q8 = self._ops.targets(b.plain, [attention.k_absorbed])
        arguments = records.SplitHeadsOp(
            q=b.q,
            q_bytes=b.q.row_bytes,
            heads=attention.heads,
            plain_dim=attention.plain_dim,
            shared_dim=attention.shared_dim,
            **rope_words(attention.rope, self._tables),
            plain=f32,
            plain_bytes=b.plain.f32.row_bytes,
            q8=q8,
            super_q8=super_q8,
            queries=b.queries,
            queries_bytes=b.queries.row_bytes,
            rope_first=attention.value_dim,
        )
        self._ops.add("split_heads", arguments, per_row=1, slots=attention.heads)

    def _group_heads(self, attention: LatentAttention, b: LatentBuffers) -> None:
        arguments = records.HeadGroupsOp(b.groups, attention.heads)
        self._ops.add("head_groups", arguments, units=1, barrier=False)

    def store(self, attention: LatentAttention, place: KVPlace, b: LatentBuffers) -> None:
        """Rotate the key, and write it to the KV pages."""
        arguments = records.RopeStoreOp(
            q=None,
            q_bytes=0,
            k=b.key,
            k_bytes=b.key.row_bytes,
            v=None,
            v_bytes=0,
            heads=0,
            kv_heads=1,
            key_dim=attention.key_dim,
            value_dim=0,
            **rope_words(attention.rope, self._tables),
            q_factor_table=-1,
            kv_group=place.group,
            page_offset=place.page_offset,
            rope_first=attention.value_dim,
        )
        self._ops.add(f"rope_store_{self._kv_type}", arguments, per_row=1, barrier=False)

    def attend(self, attention: LatentAttention, place: KVPlace, b: LatentBuffers, q_outputs: bool) -> None:
        """result = the heads' attention over the KV pages; quantized for the output matrix.

        With `q_outputs`, the queries are those of the rows of wanted logits alone.
        """
        pages, out = f"latent_{self._kv_type}", b.latents.f32
        attend(self._ops, pages, attention, place, b.queries, out, b.partials, q_outputs, has_slots=True)
        self._ops.quantize(b.latents, [attention.v], attention.heads)
        self._group_heads(attention, b)
        self._ops.observe(b.latents, [attention.v], b.groups, attention.heads)
        self._ops.grouped_matmul(attention.v, b.latents, b.values, b.groups, attention.heads)
        self._join_heads(attention, b)

    def _join_heads(self, attention: LatentAttention, b: LatentBuffers) -> None:
        h, q8, super_q8 = self._ops.targets(b.result, [attention.output])
        arguments = records.JoinHeadsOp(
            x=b.values,
            x_bytes=b.values.row_bytes,
            heads=attention.heads,
            head_dim=attention.head_value_dim,
            h=h,
            h_bytes=b.result.f32.row_bytes,
            q8=q8,
            super_q8=super_q8,
        )
        self._ops.need_scratch(4 * PIECE)
        self._ops.add("join_heads", arguments, per_row=pieces(attention.attention_width))
