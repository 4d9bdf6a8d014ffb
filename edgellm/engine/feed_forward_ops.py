"""The ops of feed-forwards, dense ones and mixtures of experts."""

from edgellm.arch.blocks import FeedForward, Linear
from edgellm.arch.description import Description
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.engine.activations import MatmulInput, StreamBuffers, float_buffer
from edgellm.engine.expert_ops import ExpertBuffers, ExpertOps
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from edgellm.engine.stream_ops import StreamOps


class FeedForwardOps:
    """Writes the ops of feed-forwards."""

    def __init__(
        self, model: Description, buffers: StreamBuffers, ops: OpWriter, stream: StreamOps, read_ahead: bool
    ) -> None:
        self._model, self._b, self._ops, self._stream = model, buffers, ops, stream
        self._norms, self._expert_ops = NormOps(ops), ExpertOps(ops, read_ahead)

    def compute(self, block: FeedForward | MixtureOfExperts, h: MatmulInput | None) -> None:
        """x += the result of a feed-forward that reads h; norm(x) if h is None."""
        is_mixture = isinstance(block, MixtureOfExperts)
        if h is None:
            h = self._stream.input(block.norm, self.read_first(block), keep=is_mixture)
        if isinstance(block, MixtureOfExperts):
            self._mixture(block, h)
        else:
            self._stream.add_to_x(self._activate(block, h), block.down, block.post_norm)

    def read_first(self, block: FeedForward | MixtureOfExperts) -> list[Linear]:
        """The projections that read what a feed-forward's norm gives; experts have it gathered for theirs."""
        if isinstance(block, FeedForward):
            return [linear for linear in (block.gate, block.up) if linear]
        shared = self.read_first(block.shared) if block.shared and block.shared.norm is None else []
        router = [] if block.router.norm else [block.router.logits]
        return [*router, *shared, *(linear for linear in (block.latent_down, block.shared_gate) if linear)]

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
            h = self._stream.input(shared.norm, self.read_first(shared))
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
