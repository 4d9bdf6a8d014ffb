"""From a description and a placement to the program of the CPU's blocks."""

from edgellm.arch.blocks import Attention, FeedForward, Layer, Linear, Norm
from edgellm.arch.description import Description
from edgellm.arch.latent_attention import LatentAttention
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.arch.recurrent import Recurrent
from edgellm.engine.activations import AttentionBuffers, MatmulInput, StreamBuffers, float_buffer
from edgellm.engine.attention_ops import AttentionOps, KVLayout, KVPlace
from edgellm.engine.expert_ops import ExpertBuffers, ExpertOps
from edgellm.engine.latent_ops import LatentBuffers, LatentOps
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.outputs import LOGITS, OutputSettings
from edgellm.engine.per_layer_ops import PerLayerOps
from edgellm.engine.placement import CPU, Placement, feed_forward, head, mixer, on_cpu
from edgellm.engine.program import Buffer, Program
from edgellm.engine.recurrent_ops import RecurrentOps, StateLayout, inputs_of
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
        self._program = Program(b.x, b.normed.f32, float_buffer("logits", model.vocab), self._kv.page_bytes)
        self._ops = OpWriter(self._program, outputs)
        self._norms = NormOps(self._ops)
        self._expert_ops = ExpertOps(self._ops, read_ahead)
        self._attention_ops = AttentionOps(model, kv_type, self._ops)
        self._latent_ops = LatentOps(model, kv_type, self._ops)
        self._recurrent_ops, self._states = RecurrentOps(self._ops), StateLayout(len(model.kv_groups))
        self._per_layer = PerLayerOps(model, b, self._ops)
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
        first = mixer(last) if needed < last else mixer(needed + 1)
        if not self._ops.outputs and self._block >= first and set(self._placement[self._block :]) == {CPU}:
            self._ops.keep_outputs(self._b.x, *self._per_layer.buffers, *buffers)

    def _mixer(self, layer: Layer, index: int) -> None:
        block = layer.attention
        if isinstance(block, LatentAttention):
            self._latent_attention(block, self._kv.place(index, block))
        elif block:
            self._attention(layer, block, self._kv.place(index, block))
        elif layer.recurrent:
            self._recurrent(layer.recurrent, self._input(layer.recurrent.norm, inputs_of(layer.recurrent)))

    def _recurrent(self, block: Recurrent, h: MatmulInput) -> None:
        """x += the result of a recurrent mixer that reads h."""
        result = self._recurrent_ops.compute(block, h, self._states.place(block))
        self._add_to_x(result, block.output, None)

    def _attention(self, layer: Layer, block: Attention, place: KVPlace) -> None:
        ops, own = self._attention_ops, AttentionBuffers.of(block, self._partials)
        keep = layer.laurel is not None or (layer.parallel and isinstance(layer.feed_forward, MixtureOfExperts))
        beside = layer.laurel.left if layer.laurel else None
        projections = [linear for linear in (block.q, block.k, block.v, block.gate, beside) if linear]
        if layer.parallel and layer.feed_forward:
            projections += self._read_first(layer.feed_forward)
        if layer.recurrent:
            projections += inputs_of(layer.recurrent)
        q_outputs = self._ops.outputs
        self._per_layer.before_layer(layer)
        h = self._input(block.norm, projections, keep)
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
        self._add_to_x(own.result, block.output, block.post_norm)
        if layer.laurel:
            self._per_layer.after_attention()

    def _latent_attention(self, block: LatentAttention, place: KVPlace) -> None:
        ops, own = self._latent_ops, LatentBuffers.of(block, self._partials)
        q_outputs = self._ops.outputs
        ops.project(block, self._input(block.norm, [block.q_a or block.q, block.kv]), own)
        ops.store(block, place, own)
        self._keep_outputs()
        ops.attend(block, place, own, q_outputs)
        self._add_to_x(own.result, block.output, None)

    def _input(self, norm: Norm | None, projections: list[Linear], keep: bool = False) -> MatmulInput:
        """What the projections of a block read: norm(x), or x; with `keep` also as float32."""
        b = self._b
        if norm is None:
            self._ops.quantize(b.raw, projections)
            return b.raw
        self._norms.norm(b.x, norm, b.normed, projections, keep)
        return b.normed

    def _add_to_x(self, h: MatmulInput, projection: Linear, post_norm: Norm | None) -> None:
        """x += residual_scale · post_norm(projection(h))."""
        ops, b, scale = self._ops, self._b, self._model.residual_scale
        if post_norm is None and scale == 1.0:
            ops.linear(h, (projection, b.x), accumulate=True)
            return
        ops.linear(h, (projection, b.result))
        if post_norm:
            self._norms.add_norm(b.x, b.result, post_norm, self._model.width, scale)
        else:
            ops.add_scaled(b.x, b.result, self._model.width, 1.0, scale)

    def _read_first(self, block: FeedForward | MixtureOfExperts) -> list[Linear]:
        """The projections that read what a feed-forward's norm gives; experts have it gathered for theirs."""
        if isinstance(block, FeedForward):
            return [linear for linear in (block.gate, block.up) if linear]
        shared = self._read_first(block.shared) if block.shared and block.shared.norm is None else []
        router = [] if block.router.norm else [block.router.logits]
        return [*router, *shared, *(linear for linear in (block.latent_down, block.shared_gate) if linear)]

    def _feed_forward(self, layer: Layer, index: int) -> None:
        block = layer.feed_forward
        if not layer.parallel:
            self._keep_outputs()
        if block:
            is_mixture = isinstance(block, MixtureOfExperts)
            first, normed = self._read_first(block), self._b.normed
            h = normed if layer.parallel else self._input(block.norm, first, keep=is_mixture)
            if isinstance(block, MixtureOfExperts):
                self._mixture(block, h)
            else:
                self._add_to_x(self._activate(block, h), block.down, block.post_norm)
        self._per_layer.after_layer(layer, index)
        if layer.output_scale != 1.0:
            self._ops.add_scaled(self._b.x, None, self._model.width, layer.output_scale)

    def _mixture(self, block: MixtureOfExperts, h: MatmulInput) -> None:
        """x += post_norm(the weighted sum of experts + what is shared)."""
        ops, b, model = self._expert_ops, ExpertBuffers.of(block), self._model
        router_input = h
        if block.router.norm:
            router_input = MatmulInput.named("router_input", model.width)
            self._norms.norm(self._b.x, block.router.norm, router_input, [block.router.logits])
        ops.choose(block.router, router_input, b)
        ops.read_ahead(block, b)
        ops.compute(block, self._read_by_experts(block, h), b)
        if block.latent_up or block.shared or block.sum_norm or block.post_norm:
            total = float_buffer("mixture", model.width)
            self._sum_of_experts(block, block.latent_up, total, b)
            self._finish_mixture(block, h, total)
        else:
            ops.combine(block, self._b.x, True, model.residual_scale, b)

    def _read_by_experts(self, block: MixtureOfExperts, h: MatmulInput) -> Buffer:
        """What experts read, as float32: h, or the latent of h."""
        if block.latent_down is None:
            return h.f32
        latent = float_buffer("expert_latent", block.latent_down.weight.shape[0])
        self._ops.linear(h, (block.latent_down, latent))
        return latent

    def _sum_of_experts(
        self, block: MixtureOfExperts, latent_up: Linear | None, total: Buffer, b: ExpertBuffers
    ) -> None:
        """total = the weighted sum of experts, projected by `latent_up` where they read a latent."""
        if latent_up is None:
            self._expert_ops.combine(block, total, False, 1.0, b)
            return
        latent = MatmulInput.named("latent_sum", latent_up.weight.shape[1])
        self._expert_ops.combine(block, latent.f32, False, 1.0, b)
        self._ops.quantize(latent, [latent_up])
        self._ops.linear(latent, (latent_up, total))

    def _finish_mixture(self, block: MixtureOfExperts, h: MatmulInput, total: Buffer) -> None:
        """x += post_norm(sum_norm(total) + what is shared)."""
        ops, b, width, scale = self._ops, self._b, self._model.width, self._model.residual_scale
        if block.sum_norm:
            self._norms.norm_in_place(total, block.sum_norm, width)
        if block.shared:
            self._add_shared(block, block.shared, h, total)
        if block.post_norm:
            self._norms.add_norm(b.x, total, block.post_norm, width, scale)
        else:
            ops.add_scaled(b.x, total, width, 1.0, scale)

    def _add_shared(self, block: MixtureOfExperts, shared: FeedForward, h: MatmulInput, total: Buffer) -> None:
        """total += shared_scale · post_norm(shared(h)) · sigmoid(shared_gate(h)).

        A shared feed-forward with a norm of its own reads norm(x).
        """
        ops, b, width = self._ops, self._b, self._model.width
        gate = float_buffer("shared_gate", 1)
        if block.shared_gate:
            ops.linear(h, (block.shared_gate, gate))
        if shared.norm:
            h = self._input(shared.norm, self._read_first(shared))
        ops.linear(self._activate(shared, h), (shared.down, b.result))
        if shared.post_norm:
            self._norms.norm_in_place(b.result, shared.post_norm, width)
        if block.shared_gate:
            ops.scale_by_sigmoid(b.result, gate, width)
        ops.add_scaled(total, b.result, width, 1.0, block.shared_scale)

    def _activate(self, block: FeedForward, h: MatmulInput) -> MatmulInput:
        """f(gate(h)) · up(h), in the form that `down` reads."""
        ops, ffn = self._ops, block.down.weight.shape[1]
        gate, up = MatmulInput.named("gate", ffn), float_buffer("up", ffn)
        if block.gate:
            ops.linear(h, (block.gate, gate.f32), (block.up, up))
        else:
            ops.linear(h, (block.up, gate.f32))
        if block.sparsity is not None:
            ops.top_activations(gate, block.sparsity)
        ops.activate(block.activation, gate, up if block.gate else None, [block.down], block.parameters)
        return gate

    def _output_head(self) -> None:
        model, ops, b, logits = self._model, self._ops, self._b, self._program.logits
        self._keep_outputs()
        self._per_layer.before_head()
        wanted = [model.output] if self._outputs.logits else []
        if self._outputs.observes:
            self._norm_observed(wanted)
        else:
            self._norms.norm(b.x, model.output_norm, b.normed, wanted, keep=self._outputs.hidden)
        if not self._outputs.logits:
            return
        ops.linear(b.normed, (model.output, logits))
        if model.logit_scale != 1.0:
            ops.add_scaled(logits, None, model.vocab, model.logit_scale)
        if model.logit_soft_cap:
            ops.soft_cap(logits, model.vocab, model.logit_soft_cap)

    def _norm_observed(self, wanted: list[Linear]) -> None:
        """The last norm of all rows, whose squares the output matrix has; the rows whose logits are wanted go on."""
        normed = self._b.normed
        self._norms.norm(self._b.x, self._model.output_norm, normed, [], keep=True)
        self._ops.observe(normed, [self._model.output])
        self._ops.keep_outputs(normed.f32)
        self._ops.quantize(normed, wanted)
