"""From a description and a placement to the program of the CPU's blocks."""

from edgellm.arch.description import Attention, Description, FeedForward, Linear, RopeType
from edgellm.engine.activations import ModelBuffers, float_buffer
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.placement import CPU, Placement, feed_forward, head, mixer, on_cpu
from edgellm.engine.program import Program
from kquants import records
from kquants.kv_layout import MAX_KV_SPLITS, MAX_SPLIT_ROWS, attention_scratch, layer_page_bytes


def build_program(model: Description, kv_type: str, placement: Placement | None = None) -> Program:
    """The program of a model with KV pages of the given type: of all blocks, or of those placed on the CPU."""
    return _ProgramBuilder(model, kv_type, placement or on_cpu(len(model.layers))).build()


class _ProgramBuilder:
    def __init__(self, model: Description, kv_type: str, placement: Placement) -> None:
        self._model, self._kv_type, self._placement = model, kv_type, placement
        self._buffers = ModelBuffers.of(model)
        self._program = Program(self._buffers.x, float_buffer("logits", model.vocab), 0)
        self._ops = OpWriter(self._program, model.eps)
        self._block = 0

    def build(self) -> Program:
        model, program = self._model, self._program
        self._ops.embed(model.embedding, self._buffers.x)
        for i, layer in enumerate(model.layers):
            if self._begin(mixer(i)):
                self._attention(layer.mixer, program.page_bytes)
                program.page_bytes += layer_page_bytes(model.kv_heads, model.head_dim, self._kv_type)
            if self._begin(feed_forward(i)):
                self._keep_outputs()
                self._feed_forward(layer.feed_forward)
        if self._begin(head(len(model.layers))):
            self._keep_outputs()
            self._output_head()
        program.starts.append(len(program.ops))
        self._ops.need_scratch(attention_scratch(model.head_dim))
        return program

    def _begin(self, block: int) -> bool:
        """Record where a block begins. Returns whether it is placed on the CPU."""
        self._program.starts.append(len(self._program.ops))
        self._block = block
        return self._placement[block] == CPU

    def _keep_outputs(self) -> None:
        """Drop the rows whose logits are not wanted, once no layer and no other device needs them.

        In the last layer, the other tokens of a prompt need keys and values only.
        """
        rest = self._placement[self._block :]
        if not self._ops.outputs and self._block >= mixer(len(self._model.layers) - 1) and set(rest) == {CPU}:
            self._ops.keep_outputs(self._buffers.x)

    def _attention(self, block: Attention, page_offset: int) -> None:
        model, ops, b = self._model, self._ops, self._buffers
        ops.norm(b.x, block.norm, b.normed, [block.q, block.k, block.v])
        ops.linear(b.normed, (block.q, b.q), (block.k, b.k), (block.v, b.v))
        if block.q_norm and block.k_norm:
            ops.norm_heads(b.q, block.q_norm, model.heads)
            ops.norm_heads(b.k, block.k_norm, model.kv_heads, barrier=False)
        self._rope_and_store(page_offset)
        self._keep_outputs()
        self._attend(page_offset)
        ops.quantize(b.attention_output, [block.output])
        ops.linear(b.attention_output, (block.output, b.x), accumulate=True)

    def _rope_and_store(self, page_offset: int) -> None:
        """Rotate q and k, and write k and v to the KV pages."""
        model, b = self._model, self._buffers
        arguments = records.RopeStoreOp(
            q=b.q,
            q_bytes=b.q.row_bytes,
            k=b.k,
            v=b.v,
            kv_bytes=b.k.row_bytes,
            heads=model.heads,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            rope_dim=2 * len(model.rope.frequencies),
            rope_type=records.ROPE_NEOX if model.rope.rope_type is RopeType.NEOX else records.ROPE_NORM,
            page_offset=page_offset,
        )
        self._ops.add(f"rope_store_{self._kv_type}", arguments, per_row=model.kv_heads)

    def _attend(self, page_offset: int) -> None:
        """attention_output = attention of q over the KV pages."""
        model, b = self._model, self._buffers
        arguments = records.AttentionOp(
            q=b.q,
            q_bytes=b.q.row_bytes,
            out=b.attention_output.f32,
            out_bytes=b.attention_output.f32.row_bytes,
            heads=model.heads,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            page_offset=page_offset,
            scale=model.head_dim**-0.5,
            partials=b.partials,
        )
        units, per_row = model.kv_heads * MAX_KV_SPLITS, model.kv_heads
        self._ops.add(f"attention_{self._kv_type}", arguments, units=units, per_row=per_row)
        self._ops.add("attention_merge", arguments, units=model.kv_heads * MAX_SPLIT_ROWS)

    def _feed_forward(self, block: FeedForward) -> None:
        ops, b = self._ops, self._buffers
        ops.norm(b.x, block.norm, b.normed, [block.gate, block.up])
        ops.linear(b.normed, (block.gate, b.gate.f32), (block.up, b.up))
        ops.swiglu(b.gate, b.up, [block.down])
        ops.linear(b.gate, (block.down, b.x), accumulate=True)

    def _output_head(self) -> None:
        model, ops, b = self._model, self._ops, self._buffers
        ops.norm(b.x, model.output_norm, b.normed, [Linear(model.output)])
        ops.matmul(model.output, b.normed, self._program.logits)
