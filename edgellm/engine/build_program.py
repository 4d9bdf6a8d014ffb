"""From a description and a placement to the program of the CPU's blocks."""

from edgellm.arch.blocks import Attention, Layer, Linear
from edgellm.arch.description import Description
from edgellm.arch.latent_attention import LatentAttention
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.arch.recurrent import Recurrent
from edgellm.engine.activations import AttentionBuffers, MatmulInput, StreamBuffers, float_buffer
from edgellm.engine.attention_ops import AttentionOps, KVLayout, KVPlace
from edgellm.engine.entry_ops import EntryOps
from edgellm.engine.feed_forward_ops import FeedForwardOps
from edgellm.engine.latent_ops import LatentBuffers, LatentOps
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.outputs import LOGITS, OutputSettings
from edgellm.engine.per_layer_ops import PerLayerOps
from edgellm.engine.placement import CPU, Placement, feed_forward, head, mixer, on_cpu
from edgellm.engine.program import Buffer, Program
from edgellm.engine.recurrent_ops import RecurrentOps, StateLayout, inputs_of
from edgellm.engine.stream_ops import StreamOps
from kquants.kv_layout import max_partials


def build_program(
    model: Description,
    kv_type: str,
    placement: Placement | None = None,
    outputs: OutputSettings = LOGITS,
    ctx: int | None = None,
    read_ahead: bool = False,
) -> Program:
    """The program of a model with KV pages of the given type: of all blocks, or of those placed on the CPU.

    Sequences have up to `ctx` tokens, by default as many as the model allows. With `read_ahead` the weights of chosen
    experts are read from the disk before they are used.
    """
    partials = max_partials(ctx or model.context_length)
    placement = placement or on_cpu(len(model.layers))
    return _ProgramBuilder(model, kv_type, placement, outputs, partials, read_ahead).build()


class _ProgramBuilder:
    def __init__(
        self,
        model: Description,
        kv_type: str,
        placement: Placement,
        outputs: OutputSettings,
        partials: int,
        read_ahead: bool,
    ) -> None:
        self._model, self._placement, self._outputs, self._partials = model, placement, outputs, partials
        self._b = b = StreamBuffers.of(model.width)
        self._kv = KVLayout(model, kv_type)
        self._program = Program(b.x, b.normed.f32, float_buffer("logits", model.logits), self._kv.page_bytes)
        self._ops = OpWriter(self._program, outputs)
        if model.feedback:
            self._program.hidden = float_buffer("feedback", model.hidden_width)
        self._norms = NormOps(self._ops)
        self._stream = StreamOps(model, b, self._ops)
        self._feed_forward_ops = FeedForwardOps(model, b, self._ops, self._stream, read_ahead)
        self._attention_ops = AttentionOps(model, kv_type, self._ops)
        self._latent_ops = LatentOps(model, kv_type, self._ops)
        self._recurrent_ops, self._states = RecurrentOps(self._ops), StateLayout(len(model.kv_groups))
        self._per_layer = PerLayerOps(model, b, self._ops)
        self._entry = EntryOps(model, model.entry, b.x, self._ops) if model.entry else None
        self._block = 0

    def build(self) -> Program:
        self._embed()
        for i, layer in enumerate(self._model.layers):
            if self._begin(mixer(i)):
                self._mixer(layer, i)
            if self._begin(feed_forward(i)):
                self._feed_forward(layer, i)
        if self._begin(head(len(self._model.layers))):
            self._output_head()
        self._program.starts.append(len(self._program.ops))
        if self._outputs.gives_inputs_alone:
            self._program.end_at(max((given.op for given in self._program.given), default=0))
        self._program.state_bytes = self._states.page_bytes
        return self._program

    def _begin(self, block: int) -> bool:
        """Record where a block begins. Returns whether it is placed on the CPU."""
        self._program.starts.append(len(self._program.ops))
        self._block = block
        return self._placement[block] == CPU

    def _embed(self) -> None:
        model, x = self._model, self._b.x
        if self._entry:
            self._entry.write(self._program)
        else:
            self._ops.embed(model.embedding, x, model.embedding_scale)
        if model.embedding_norm:
            self._norms.norm_in_place(x, model.embedding_norm, model.width)
        self._per_layer.embed()

    def _keep_outputs(self, *buffers: Buffer) -> None:
        """Drop the rows whose logits are not wanted, once no layer and no other device needs them.

        The buffers are `buffers` and those that one layer hands to the next. Once the last layer with a state of its
        own has stored it, nothing else of the other tokens of a prompt is needed, unless inputs of matrices are.
        """
        if self._outputs.observes:
            return
        last, needed = self._model.last_state_layer, max(self._outputs.taps, default=-1)
        if self._outputs.all_hidden:
            needed = len(self._model.layers) - 1
        first = mixer(last) if needed < last else mixer(needed + 1)
        if not self._ops.outputs and self._block >= first and set(self._placement[self._block :]) == {CPU}:
            self._ops.keep_outputs(self._b.x, *self._per_layer.buffers, *buffers)

    def _mixer(self, layer: Layer, index: int) -> None:
        block = layer.attention
        if isinstance(block, LatentAttention):
            self._latent_attention(block, self._kv.place(index, block))
        elif block:
            self._attention(layer, block, self._kv.place(index, block), index)
        elif layer.recurrent:
            self._recurrent(layer.recurrent, self._stream.input(layer.recurrent.norm, inputs_of(layer.recurrent)))

    def _recurrent(self, block: Recurrent, h: MatmulInput) -> None:
        """x += the result of a recurrent mixer that reads h."""
        result = self._recurrent_ops.compute(block, h, self._states.place(block))
        self._stream.add_to_x(result, block.output, None)

    def _attention(self, layer: Layer, block: Attention, place: KVPlace, index: int) -> None:
        ops, own = self._attention_ops, AttentionBuffers.of(block, self._partials)
        keep = layer.laurel is not None or (layer.parallel and isinstance(layer.feed_forward, MixtureOfExperts))
        beside = layer.laurel.left if layer.laurel else None
        projections = [linear for linear in (block.q, block.k, block.v, block.gate, beside) if linear]
        if layer.parallel and layer.feed_forward:
            projections += self._feed_forward_ops.read_first(layer.feed_forward)
        if layer.recurrent:
            projections += inputs_of(layer.recurrent)
        q_outputs = self._ops.outputs
        self._per_layer.before_layer(layer)
        if self._entry and self._entry.is_read_by(index):
            h = self._entry.input(projections)
        else:
            h = self._stream.input(block.norm, projections, keep)
        if layer.recurrent:
            self._recurrent(layer.recurrent, h)
        ops.project(block, h, own)
        kept = [own.gate] if block.has_gate else []
        if layer.laurel:
            kept += self._per_layer.beside_attention(layer.laurel)
        ops.store(block, place, own)
        if not layer.parallel:
            self._keep_outputs(*kept)
        ops.attend(block, place, own, q_outputs)
        self._stream.add_to_x(own.result, block.output, block.post_norm)
        if layer.laurel:
            self._per_layer.after_attention()

    def _latent_attention(self, block: LatentAttention, place: KVPlace) -> None:
        ops, own = self._latent_ops, LatentBuffers.of(block, self._partials)
        q_outputs = self._ops.outputs
        ops.project(block, self._stream.input(block.norm, [block.q_a or block.q, block.kv]), own)
        ops.store(block, place, own)
        self._keep_outputs()
        ops.attend(block, place, own, q_outputs)
        self._stream.add_to_x(own.result, block.output, None)

    def _feed_forward(self, layer: Layer, index: int) -> None:
        block = layer.feed_forward
        if not layer.parallel:
            self._keep_outputs()
        if block:
            self._feed_forward_ops.compute(block, self._b.normed if layer.parallel else None)
        self._per_layer.after_layer(layer, index)
        if layer.output_scale != 1.0:
            self._ops.add_scaled(self._b.x, None, self._model.width, layer.output_scale)

    def _output_head(self) -> None:
        model, ops, b, logits = self._model, self._ops, self._b, self._program.logits
        if self._outputs.all_hidden:
            self._per_layer.before_head()
            self._norm_all()
            self._keep_outputs()
        else:
            self._keep_outputs()
            self._per_layer.before_head()
        wanted = [model.output] if self._outputs.logits else []
        wanted += [model.feedback] if model.feedback else []
        if self._outputs.observes:
            self._norm_observed(wanted)
        else:
            self._norms.norm(b.x, model.output_norm, b.normed, wanted, keep=self._outputs.hidden)
        if model.feedback:
            ops.linear(b.normed, (model.feedback, self._program.hidden))
        if not self._outputs.logits:
            return
        ops.linear(b.normed, (model.output, logits))
        if model.logit_scale != 1.0:
            ops.add_scaled(logits, None, model.logits, model.logit_scale)
        if model.logit_soft_cap:
            ops.soft_cap(logits, model.logits, model.logit_soft_cap)

    def _norm_all(self) -> None:
        """The last norm of all rows, whose states are given."""
        all_hidden = MatmulInput.named("all_hidden", self._model.width)
        self._norms.norm(self._b.x, self._model.output_norm, all_hidden, [], keep=True)
        self._program.all_hidden = all_hidden.f32

    def _norm_observed(self, wanted: list[Linear]) -> None:
        """The last norm of all rows, whose squares the output matrix has; the rows whose logits are wanted go on."""
        normed = self._b.normed
        self._norms.norm(self._b.x, self._model.output_norm, normed, [], keep=True)
        self._ops.observe(normed, [self._model.output])
        self._ops.keep_outputs(normed.f32)
        self._ops.quantize(normed, wanted)
