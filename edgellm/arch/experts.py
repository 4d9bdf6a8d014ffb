"""From the tensors of a layer to its mixture of experts. The GGUF stem of a tensor says what it is:

ffn_gate_inp                                    the router's matrix, a row for each expert
ffn_gate_inp.scale                              the weight of the router's own norm (Gemma 4)
exp_probs_b.bias                                what is added to scores for the choice alone
ffn_gate_exps, ffn_up_exps, ffn_down_exps       the matrices of all experts, one behind the other
ffn_gate_up_exps                                the same with the rows of gate, then those of up, in each matrix
ffn_down_exps.scale                             the factor of each expert's weight
ffn_latent_down, ffn_latent_up                  the projection to the latent that experts read, and that of their sum
ffn_gate_shexp, ffn_up_shexp, ffn_down_shexp    the shared expert, ffn_gate_inp_shexp its gate
pre_ffw_norm_2                                  the norm before the experts, where a feed-forward stands beside them as
                                                in layers without experts; post_ffw_norm_1 is the norm behind that
                                                feed-forward, post_ffw_norm_2 the one behind the experts (Gemma 4)
"""

from dataclasses import replace

from edgellm.arch.blocks import FeedForward, Linear, Norm, StackedLinear
from edgellm.arch.layers import LayerReader
from edgellm.arch.mixture import MixtureOfExperts, Router, RouterSettings
from edgellm.gguf import Tensor

_NORM_OF_EXPERTS, _ROUTER_NORM, _EXPERT_SCALES = "pre_ffw_norm_2", "ffn_gate_inp.scale", "ffn_down_exps.scale"


class ExpertReader:
    """Takes the tensors of the mixture of experts of a layer."""

    def __init__(self, reader: LayerReader, settings: RouterSettings) -> None:
        self._reader, self._settings = reader, settings

    def mixture(self) -> MixtureOfExperts:
        """The mixture of experts. Raises ModelFileError and UnsupportedModelError."""
        reader = self._reader
        if _NORM_OF_EXPERTS in reader.facts.tensors:
            return self._beside_feed_forward()
        return replace(
            self._experts(reader.norm(reader.facts.ffn_norm_stem)),
            shared=self._shared(),
            shared_gate=self._shared_gate(),
            shared_scale=reader.facts.shared_experts_scale,
            post_norm=reader.post_norm("post_ffw_norm"),
        )

    def _beside_feed_forward(self) -> MixtureOfExperts:
        """Experts and a feed-forward that read x, each between norms of its own."""
        reader = self._reader
        dense = reader.feed_forward()
        return replace(
            self._experts(reader.required_norm(_NORM_OF_EXPERTS)),
            shared=replace(dense, post_norm=reader.required_norm("post_ffw_norm_1")),
            sum_norm=reader.required_norm("post_ffw_norm_2"),
            post_norm=dense.post_norm,
        )

    def _experts(self, norm: Norm | None) -> MixtureOfExperts:
        """The experts that the router chooses from, without what is shared."""
        reader = self._reader
        gate, up = self._gate_and_up()
        return MixtureOfExperts(
            norm=norm,
            router=self._router(),
            gate=gate,
            up=up,
            down=reader.stack("ffn_down_exps"),
            activation=reader.facts.activation,
            parameters=reader.facts.activation_parameters(reader.hyper, reader.index),
            latent_down=self._latent("ffn_latent_down"),
            latent_up=self._latent("ffn_latent_up"),
        )

    def _latent(self, stem: str) -> Linear | None:
        """A projection to or from the latent that experts read; None where they read the hidden state."""
        has_latent = stem in self._reader.facts.tensors and self._reader.sizes.expert_latent
        return self._reader.required(stem) if has_latent else None

    def _router(self) -> Router:
        reader = self._reader
        tensors = reader.facts.tensors
        return Router(
            **vars(self._settings),
            logits=reader.required("ffn_gate_inp"),
            selection_bias=self._selection_bias(),
            expert_scales=reader.floats(_EXPERT_SCALES) if _EXPERT_SCALES in tensors else None,
            norm=reader.required_norm(_ROUTER_NORM) if _ROUTER_NORM in tensors else None,
        )

    def _selection_bias(self) -> Tensor | None:
        """What is added to scores; a matrix of one row in some files."""
        bias = self._reader.floats_or_none("exp_probs_b.bias")
        return bias.matrix(0) if bias and len(bias.shape) > 1 else bias

    def _gate_and_up(self) -> tuple[StackedLinear | None, StackedLinear]:
        if self._reader.has("ffn_gate_up_exps"):
            fused, ffn = self._reader.stack("ffn_gate_up_exps"), self._reader.sizes.expert_ffn
            return replace(fused, rows=ffn), replace(fused, rows=ffn, first=ffn)
        gate = self._reader.stack("ffn_gate_exps") if "ffn_gate_exps" in self._reader.facts.tensors else None
        return gate, self._reader.stack("ffn_up_exps")

    def _shared(self) -> FeedForward | None:
        """The shared expert, which reads what the norm of the others gives."""
        reader = self._reader
        facts = reader.facts.tensors.get("ffn_up_shexp")
        if facts is None or (facts.optional and not reader.hyper.has_shared_experts):
            return None
        return FeedForward(
            norm=None,
            gate=reader.required("ffn_gate_shexp") if "ffn_gate_shexp" in reader.facts.tensors else None,
            up=reader.required("ffn_up_shexp"),
            down=reader.required("ffn_down_shexp"),
            activation=reader.facts.activation,
            parameters=reader.facts.activation_parameters(reader.hyper, reader.index),
        )

    def _shared_gate(self) -> Linear | None:
        """The gate of the shared expert: a matrix of one row, which some files have as a vector."""
        gate = self._reader.floats_or_none("ffn_gate_inp_shexp")
        return Linear(gate) if gate else None
