"""From the tensors of a layer to its description. The GGUF stem of a tensor says what it is:

attn_norm                       the norm before the mixer; an architecture without it reads x as it is
attn_q, attn_k, attn_v          projections, or one matrix attn_qkv with their rows in this order
attn_q_norm, attn_k_norm        norms of q and k: of each head, or of the whole projection where they are as long
attn_sinks, attn_gate           see `edgellm.arch.blocks.Attention`
attn_output                     the projection behind attention
post_attention_norm             the norm behind the mixer, unless it is `ffn_norm_stem`
ffn_norm                        the norm before the feed-forward; where it is optional and the layer has none, mixer and
                                feed-forward are parallel
ffn_gate, ffn_up, ffn_down      projections; ffn_up of shape (gate_up, width) has the rows of gate, then those of up
post_ffw_norm                   the norm behind the feed-forward
"""

from dataclasses import dataclass, replace
from functools import cached_property

from edgellm.arch.blocks import Attention, AttentionSettings, FeedForward, Layer, Linear, Norm, StackedLinear
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.latent_attention import LatentAttention, LatentSettings
from edgellm.arch.layer_sizes import LayerSizes
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.arch.recurrent import RecurrentSettings, recurrent_sizes
from edgellm.arch.tensors import Tensors
from edgellm.gguf import Tensor


@dataclass(frozen=True)
class LayerReader:
    """Takes the tensors of layer `index`, with the shapes that the facts give."""

    tensors: Tensors
    hyper: HyperParameters
    facts: ArchitectureFacts
    index: int

    def layer(
        self, attention: Attention | LatentAttention | None, feed_forward: FeedForward | MixtureOfExperts | None
    ) -> Layer:
        """The layer of attention and a feed-forward, either of which it may lack."""
        has_norm = self.facts.ffn_norm_stem in self.facts.tensors
        lacks_norm = feed_forward is not None and feed_forward.norm is None and has_norm
        return Layer(attention, feed_forward, parallel=self.facts.parallel or lacks_norm)

    @cached_property
    def attention_settings(self) -> AttentionSettings | None:
        """The settings of the layer's attention; a window as long as the context is none. None: it has no attention."""
        settings = self.facts.attention(self.hyper, self.index)
        if settings and settings.window and settings.window >= self.hyper.context_length:
            return replace(settings, window=None, chunked=False)
        return settings

    @property
    def settings(self) -> AttentionSettings:
        """The settings of attention of a layer that has it."""
        assert self.attention_settings, f"layer {self.index} has no attention"
        return self.attention_settings

    @cached_property
    def recurrent_settings(self) -> RecurrentSettings | None:
        """The settings of the layer's recurrent mixer; None: it has none."""
        return self.facts.recurrent(self.hyper, self.index)

    @cached_property
    def sizes(self) -> LayerSizes:
        """The sizes that shapes of tensors name."""
        return LayerSizes(
            width=self.hyper.width,
            vocab=self.hyper.vocab,
            ffn=self.hyper.ffn[self.index],
            per_layer_width=self.hyper.per_layer_width,
            experts=self.hyper.experts,
            expert_ffn=self.hyper.expert_ffn(self.index),
            shared_ffn=self.hyper.shared_ffn(self.index),
            expert_latent=self.hyper.expert_latent,
            **self._attention_sizes(),
            **recurrent_sizes(self.recurrent_settings),
        )

    def _attention_sizes(self) -> dict[str, int]:
        """The sizes of the layer's attention, if it has any."""
        settings = self.attention_settings
        if settings is None:
            return {}
        names = ["heads", "kv_heads", "key_dim", "q_width", "k_width", "v_width", "attention_width", "gate_width"]
        if isinstance(settings, LatentSettings):
            names += ["q_rank", "plain_dim", "head_value_dim"]
        return {name: getattr(settings, name) for name in names}

    def attention(self) -> Attention:
        """The attention of the layer."""
        q, k, v = self.qkv()
        weightless = Norm(None, None, self.hyper.eps) if self.facts.weightless_qk_norm(self.hyper, self.index) else None
        return Attention(
            **vars(self.settings),
            norm=self.norm("attn_norm"),
            q=q,
            k=k,
            v=v,
            output=self.required("attn_output"),
            q_norm=self.norm("attn_q_norm") or weightless,
            k_norm=self.norm("attn_k_norm") or weightless if k else None,
            v_norm=Norm(None, None, self.hyper.eps) if self.facts.weightless_v_norm and k else None,
            norm_after_rope=self.facts.norm_after_rope,
            sinks=self.sinks(),
            gate=None if self.settings.gate_in_q else self.linear("attn_gate"),
            post_norm=None if self.facts.ffn_norm_stem == _POST_NORM else self.post_norm(_POST_NORM),
        )

    def qkv(self) -> tuple[Linear, Linear | None, Linear | None]:
        """The projections of q, k and v; without k and v where the layer reads those of another."""
        if self.settings.kv_layer is not None:  # some conversions have k and v there, which the model never uses
            self.tensors.drop_prefix(*(f"blk.{self.index}.{stem}." for stem in ("attn_k", "attn_v", "attn_k_norm")))
            return self.required("attn_q"), None, None
        if self.has("attn_qkv") or "attn_q" not in self.facts.tensors:
            return self.fused_qkv()
        q, k, v = self.required("attn_q"), self.required("attn_k"), self.linear("attn_v")
        if v is None and self.settings.key_dim != self.settings.value_dim:
            self.tensors.file.fail(f"has no tensor blk.{self.index}.attn_v.weight; get another conversion of the model")
        return q, k, v

    def fused_qkv(self) -> tuple[Linear, Linear, Linear]:
        """The projections of q, k and v, whose rows are one matrix."""
        q, k, end = self.sizes.q_width, self.sizes.q_width + self.sizes.k_width, self.sizes.qkv_width
        fused = self.matrix("attn_qkv", end, self.sizes.width)
        return part(fused, 0, q), part(fused, q, k), part(fused, k, end)

    def feed_forward(self) -> FeedForward:
        """The feed-forward of a layer."""
        gate, up = self.gate_and_up()
        return FeedForward(
            norm=self.norm(self.facts.ffn_norm_stem),
            gate=gate,
            up=up,
            down=self.required("ffn_down"),
            activation=self.facts.activation,
            parameters=self.facts.activation_parameters(self.hyper, self.index),
            sparsity=self.facts.sparsity(self.hyper, self.index),
            post_norm=self.post_norm("post_ffw_norm"),
        )

    def gate_and_up(self) -> tuple[Linear | None, Linear]:
        """The projections gate and up; without gate where the architecture has none."""
        ffn = self.sizes.ffn
        if self.facts.shapes["ffn_up"][0] == "gate_up":
            fused = self.required("ffn_up")
            return part(fused, 0, ffn), part(fused, ffn, 2 * ffn)
        return self.linear("ffn_gate"), self.required("ffn_up")

    def has(self, stem: str) -> bool:
        """Whether the file has a weight of this stem in the layer."""
        return f"blk.{self.index}.{stem}.weight" in self.tensors

    def norm(self, stem: str) -> Norm | None:
        """The norm of a stem; None where the architecture has none, or may lack it and does."""
        facts = self.facts.tensors.get(stem)
        return None if facts is None or (facts.optional and not self.has(stem)) else self.required_norm(stem)

    def required_norm(self, stem: str) -> Norm:
        """The norm of a stem. Raises ModelFileError if the file has none."""
        weight = self.floats(stem)
        return Norm(weight, self.bias(stem, weight.shape), self.hyper.eps, self.hyper.norm_kind)

    def post_norm(self, stem: str) -> Norm | None:
        """The norm of a stem, behind the mixer or the feed-forward; see `norm`."""
        norm, eps = self.norm(stem), self.facts.post_norm_eps
        return norm if norm is None or eps is None else replace(norm, eps=eps)

    def floats(self, stem: str) -> Tensor:
        """The float32 weight of a stem, or of a whole name. Raises ModelFileError if the file has none."""
        facts = self.facts.tensors[stem]
        return self.tensors.floats(f"blk.{self.index}.{facts.name}", self.sizes.shape(facts.shape))

    def floats_or_none(self, gguf: str) -> Tensor | None:
        """The float32 values of a stem, or of a name such as `exp_probs_b.bias`; None where the layer has none."""
        facts = self.facts.tensors.get(gguf)
        name = f"blk.{self.index}.{facts.name}" if facts else ""
        return self.tensors.floats(name, self.sizes.shape(facts.shape)) if facts and name in self.tensors else None

    def required(self, stem: str) -> Linear:
        """The projection of a stem. Raises ModelFileError if the file has none."""
        rows, columns = self.sizes.shape(self.facts.shapes[stem])
        return self.matrix(stem, rows, columns)

    def linear(self, stem: str) -> Linear | None:
        """The projection of a stem; None where the architecture has none, or may lack it and does."""
        facts = self.facts.tensors.get(stem)
        return None if facts is None or (facts.optional and not self.has(stem)) else self.required(stem)

    def matrix(self, stem: str, rows: int, columns: int) -> Linear:
        """A projection with its bias and its factor, if it has them."""
        weight = self.tensors.matrix(f"blk.{self.index}.{stem}.weight", rows, columns)
        return Linear(weight, self.bias(stem, (rows,)), self.factors(stem, 1))

    def stack(self, stem: str) -> StackedLinear:
        """The projections of a stem, one behind the other, with their biases and factors, if they have them."""
        count, rows, columns = self.sizes.shape(self.facts.shapes[stem])
        weight = self.tensors.stack(f"blk.{self.index}.{stem}.weight", count, rows, columns)
        return StackedLinear(weight, rows, bias=self.bias(stem, (count, rows)), factors=self.factors(stem, count))

    def factors(self, stem: str, count: int) -> Tensor | None:
        """The factors of the matrices of a stem; None where the file has none, or what it has is something else."""
        is_factor = f"{stem}.scale" not in self.facts.tensors
        return self.tensors.factors(f"blk.{self.index}.{stem}", count) if is_factor else None

    def bias(self, stem: str, shape: tuple[int, ...]) -> Tensor | None:
        """The bias of a stem; None where the architecture has none, or may lack it and does."""
        name = f"blk.{self.index}.{stem}.bias"
        stem = "attn_q" if stem == "attn_qkv" else stem
        has_bias = stem in self.facts.biases or (stem in self.facts.optional_biases and name in self.tensors)
        return self.tensors.floats(name, shape) if has_bias else None

    def sinks(self) -> Tensor | None:
        """The scores of the sinks; None where the architecture has none."""
        return self.floats("attn_sinks") if "attn_sinks" in self.facts.tensors else None


_POST_NORM = "post_attention_norm"


def part(fused: Linear, first: int, last: int) -> Linear:
    """Rows `first` … `last` - 1 of a fused projection."""
    bias = fused.bias.rows(first, last) if fused.bias else None
    return replace(fused, weight=fused.weight.rows(first, last), bias=bias)
