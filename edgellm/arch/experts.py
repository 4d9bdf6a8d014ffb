"""From the tensors of a layer to its mixture of experts. The GGUF stem of a tensor says what it is:

ffn_gate_inp                                    the router's matrix, a row for each expert
ffn_gate_inp.scale                              the weight of the router's own norm (Gemma 4)
exp_probs_b.bias                                what is added to scores for the choice alone
ffn_gate_exps, ffn_up_exps, ffn_down_exps       the matrices of all experts, one behind the other
ffn_gate_up_exps                                the same with the rows of gate, then those of up, in each matrix
ffn_gate_shexp, ffn_up_shexp, ffn_down_shexp    the shared expert, ffn_gate_inp_shexp its gate
"""

from edgellm.arch.blocks import FeedForward, Linear, MixtureOfExperts, Router, RouterSettings, StackedLinear
from edgellm.arch.layers import LayerReader


class ExpertReader:
    """Takes the tensors of the mixture of experts of a layer."""

    def __init__(self, reader: LayerReader, settings: RouterSettings) -> None:
        self._reader, self._settings = reader, settings

    def mixture(self) -> MixtureOfExperts:
        """The mixture of experts. Raises ModelFileError and UnsupportedModelError."""
        reader = self._reader
        gate, up = self._gate_and_up()
        return MixtureOfExperts(
            norm=reader.norm(reader.facts.ffn_norm_stem),
            router=self._router(),
            gate=gate,
            up=up,
            down=self._stack("ffn_down_exps"),
            activation=reader.facts.activation,
            parameters=reader.facts.activation_parameters(reader.hyper, reader.index),
            shared=self._shared(),
            shared_gate=self._shared_gate(),
            post_norm=reader.post_norm("post_ffw_norm"),
        )

    def _router(self) -> Router:
        reader = self._reader
        return Router(
            **vars(self._settings),
            logits=reader.required("ffn_gate_inp"),
            selection_bias=reader.floats_or_none("exp_probs_b.bias"),
        )

    def _gate_and_up(self) -> tuple[StackedLinear | None, StackedLinear]:
        if self._reader.has("ffn_gate_up_exps"):
            fused, ffn = self._stack("ffn_gate_up_exps"), self._reader.sizes.expert_ffn
            return tuple(StackedLinear(fused.weight, ffn, first, fused.bias) for first in (0, ffn))  # type: ignore[return-value]
        gate = self._stack("ffn_gate_exps") if "ffn_gate_exps" in self._reader.facts.tensors else None
        return gate, self._stack("ffn_up_exps")

    def _stack(self, stem: str) -> StackedLinear:
        reader = self._reader
        count, rows, columns = reader.sizes.shape(reader.facts.shapes[stem])
        weight = reader.tensors.stack(f"blk.{reader.index}.{stem}.weight", count, rows, columns)
        return StackedLinear(weight, rows, bias=reader.bias(stem, (count, rows)))

    def _shared(self) -> FeedForward | None:
        """The shared expert, which reads what the norm of the others gives."""
        reader = self._reader
        if not reader.has("ffn_up_shexp"):
            return None
        return FeedForward(
            norm=None,
            gate=reader.linear("ffn_gate_shexp"),
            up=reader.required("ffn_up_shexp"),
            down=reader.required("ffn_down_shexp"),
            activation=reader.facts.activation,
            parameters=reader.facts.activation_parameters(reader.hyper, reader.index),
        )

    def _shared_gate(self) -> Linear | None:
        """The gate of the shared expert: a matrix of one row, which some files have as a vector."""
        gate = self._reader.floats_or_none("ffn_gate_inp_shexp")
        return Linear(gate) if gate else None
