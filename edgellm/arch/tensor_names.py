"""The tensors of a model: their names in GGUF files and in checkpoints, and their shapes.

Names are stems. In GGUF `attn_q` is `blk.0.attn_q.weight`, and perhaps `blk.0.attn_q.bias`, for layer 0; in Hugging
Face's layout `self_attn.q_proj` is `model.layers.0.self_attn.q_proj.weight`.
"""

from dataclasses import dataclass, replace
from typing import Literal

Dimension = Literal[
    "vocab",
    "width",
    "twice_width",
    "heads",
    "kv_heads",
    "key_dim",
    "q_width",
    "k_width",
    "v_width",
    "qkv_width",
    "attention_width",
    "gate_width",
    "ffn",
    "gate_up",
    "experts",
    "expert_ffn",
    "expert_gate_up",
    "shared_ffn",
    "expert_latent",
    "expert_width",
    "q_rank",
    "plain_dim",
    "head_value_dim",
    "kv_b_width",
    "per_layer_width",
    "per_layer_total",
    "q_and_gate_width",
    "taps",
    "conv_width",
    "recurrent_heads",
    "twice_recurrent_heads",
    "recurrent_head_dim",
    "recurrent_width",
    "recurrent_groups",
    "recurrent_group_width",
    "mamba_in_width",
    "qkvz_width",
    "twice_recurrent_width",
    "three_recurrent_widths",
    "state_dim",
    "step_rank",
    "step_b_c_width",
    "mixer_q_width",
    "mixer_width",
]
Size = Dimension | int
"""A size of a model or of a layer, or the same number in all models; see `edgellm.arch.layer_sizes.LayerSizes`."""


@dataclass(frozen=True)
class TensorFacts:
    """The names of a weight and its shape, in numpy order. `meta` is its name in Meta's and Mistral's own layout.

    `gguf` is a stem, for a weight, or a whole name such as `exp_probs_b.bias`. `hugging_face` is None for a tensor that
    checkpoints do not have, as the converter computes it, or have within a `FusedTensor` alone. A name with * is that
    of the parts of a tensor, one for each index of its first dimension. `optional`: some models of the architecture
    have no such tensor, or some layers. With `is_bare`, the name in GGUF is the stem alone, without `.weight`.
    `checkpoint_shape` is the shape in checkpoints where it differs, of the same numbers in the same order. With
    `is_outside`, its name in checkpoints is whole: it lies beside the text model, and not in it.
    """

    gguf: str
    hugging_face: str | None
    meta: str | None
    shape: tuple[Size, ...]
    optional: bool = False
    is_bare: bool = False
    checkpoint_shape: tuple[Size, ...] | None = None
    is_outside: bool = False

    @property
    def name(self) -> str:
        """The whole name in GGUF, without that of the layer."""
        return self.gguf if "." in self.gguf or self.is_bare else f"{self.gguf}.weight"


@dataclass(frozen=True)
class FusedTensor:
    """A tensor of checkpoints that holds the matrices of all experts, or their biases, for one or several GGUF tensors.

    It holds (experts, rows, columns), or (experts, columns, rows) where it is `transposed`; biases are (experts, rows).
    The rows of the tensors `gguf`, named as in `TensorFacts`, follow each other in each matrix, equally many of each;
    with `interleaved` they alternate. Where it is not `stacked` it is one matrix (rows, columns).
    """

    hugging_face: str
    gguf: tuple[str, ...]
    transposed: bool = False
    interleaved: bool = False
    stacked: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The whole names in GGUF, without that of the layer."""
        return tuple(each if "." in each else f"{each}.weight" for each in self.gguf)


EMBEDDING = TensorFacts("token_embd", "embed_tokens", "tok_embeddings", ("vocab", "width"))
OUTPUT_NORM = TensorFacts("output_norm", "norm", "norm", ("width",))
OUTPUT = TensorFacts("output", "lm_head", "output", ("vocab", "width"), optional=True)
"""The tensors outside of layers. Models with tied embeddings may have no output matrix."""

ATTENTION_TENSORS = (
    TensorFacts("attn_q", "self_attn.q_proj", "attention.wq", ("q_width", "width")),
    TensorFacts("attn_k", "self_attn.k_proj", "attention.wk", ("k_width", "width")),
    TensorFacts("attn_v", "self_attn.v_proj", "attention.wv", ("v_width", "width")),
    TensorFacts("attn_output", "self_attn.o_proj", "attention.wo", ("width", "attention_width")),
)
GATED_ATTENTION_TENSORS = (
    TensorFacts("attn_q", "self_attn.q_proj", None, ("q_and_gate_width", "width")),
    *ATTENTION_TENSORS[1:],
)
GATED_FEED_FORWARD_TENSORS = (
    TensorFacts("ffn_gate", "mlp.gate_proj", "feed_forward.w1", ("ffn", "width")),
    TensorFacts("ffn_up", "mlp.up_proj", "feed_forward.w3", ("ffn", "width")),
    TensorFacts("ffn_down", "mlp.down_proj", "feed_forward.w2", ("width", "ffn")),
)
FUSED_GATE_UP = (
    TensorFacts("ffn_up", "mlp.gate_up_proj", None, ("gate_up", "width")),
    TensorFacts("ffn_down", "mlp.down_proj", None, ("width", "ffn")),
)
"""Tensors of each layer: a gated feed-forward with the rows of gate and up in one matrix."""

ROUTER = TensorFacts("ffn_gate_inp", "mlp.gate", None, ("experts", "width"))
EXPERT_TENSORS = (
    TensorFacts("ffn_gate_exps", "mlp.experts.*.gate_proj", None, ("experts", "expert_ffn", "width")),
    TensorFacts("ffn_up_exps", "mlp.experts.*.up_proj", None, ("experts", "expert_ffn", "width")),
    TensorFacts("ffn_down_exps", "mlp.experts.*.down_proj", None, ("experts", "width", "expert_ffn")),
)
_GATE, _UP, _DOWN = EXPERT_TENSORS
MIXTRAL_ROUTER = TensorFacts("ffn_gate_inp", "block_sparse_moe.gate", "feed_forward.gate", ("experts", "width"))
MIXTRAL_EXPERT_TENSORS = tuple(
    replace(each, hugging_face=f"block_sparse_moe.experts.*.{name}", meta=f"feed_forward.experts.*.{name}")
    for each, name in ((_GATE, "w1"), (_UP, "w3"), (_DOWN, "w2"))
)
SELECTION_BIAS = TensorFacts("exp_probs_b.bias", "mlp.gate.e_score_correction_bias", None, ("experts",), optional=True)
SHARED_EXPERT_TENSORS = (
    TensorFacts("ffn_gate_shexp", "mlp.shared_expert.gate_proj", None, ("shared_ffn", "width")),
    TensorFacts("ffn_up_shexp", "mlp.shared_expert.up_proj", None, ("shared_ffn", "width")),
    TensorFacts("ffn_down_shexp", "mlp.shared_expert.down_proj", None, ("width", "shared_ffn")),
)
SHARED_EXPERTS_TENSORS = tuple(
    replace(each, hugging_face=f"{each.hugging_face}".replace("shared_expert", "shared_experts"))
    for each in SHARED_EXPERT_TENSORS
)
SHARED_EXPERT_GATE = TensorFacts("ffn_gate_inp_shexp", "mlp.shared_expert_gate", None, (1, "width"))
GATED_SHARED_EXPERT_MIXTURE = (ROUTER, *EXPERT_TENSORS, *SHARED_EXPERT_TENSORS, SHARED_EXPERT_GATE)
"""Tensors of each layer with a mixture of experts. A * in a name of checkpoints stands for the number of an expert."""

LATENT_ATTENTION_TENSORS = (
    TensorFacts("attn_q", "self_attn.q_proj", None, ("q_width", "width")),
    TensorFacts("attn_q_a", "self_attn.q_a_proj", None, ("q_rank", "width")),
    TensorFacts("attn_q_a_norm", "self_attn.q_a_layernorm", None, ("q_rank",)),
    TensorFacts("attn_q_b", "self_attn.q_b_proj", None, ("q_width", "q_rank")),
    TensorFacts("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", None, ("k_width", "width")),
    TensorFacts("attn_kv_a_norm", "self_attn.kv_a_layernorm", None, ("v_width",)),
    TensorFacts("attn_kv_b", "self_attn.kv_b_proj", None, ("kv_b_width", "v_width")),
    TensorFacts("attn_k_b", None, None, ("heads", "v_width", "plain_dim")),
    TensorFacts("attn_v_b", None, None, ("heads", "head_value_dim", "v_width")),
    TensorFacts("attn_output", "self_attn.o_proj", None, ("width", "attention_width")),
)
"""Tensors of each layer: latent attention. Checkpoints and old files have attn_k_b and attn_v_b as one, attn_kv_b."""

FUSED_EXPERTS = (
    FusedTensor("mlp.experts.gate_up_proj", ("ffn_gate_exps", "ffn_up_exps")),
    FusedTensor("mlp.experts.down_proj", ("ffn_down_exps",)),
)
"""The same matrices of experts as transformers 5 holds them in memory."""

PREDICTION_TENSORS = (
    TensorFacts("nextn.eh_proj.weight", "eh_proj", None, ("width", "twice_width")),
    TensorFacts("nextn.enorm.weight", "enorm", None, ("width",)),
    TensorFacts("nextn.hnorm.weight", "hnorm", None, ("width",)),
    TensorFacts("nextn.shared_head_norm.weight", "shared_head.norm", None, ("width",), optional=True),
    TensorFacts("nextn.shared_head_head.weight", "shared_head.head", None, ("vocab", "width"), optional=True),
    TensorFacts("nextn.embed_tokens.weight", "embed_tokens", None, ("vocab", "width"), optional=True),
)
"""Tensors of a layer for multi-token prediction (arXiv 2412.19437), beside those of other layers."""

ATTN_NORM = TensorFacts("attn_norm", "input_layernorm", "attention_norm", ("width",))
FFN_NORM = TensorFacts("ffn_norm", "post_attention_layernorm", "ffn_norm", ("width",))
PRE_NORM_TENSORS = (ATTN_NORM, FFN_NORM)
BLOCK = (*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, *PRE_NORM_TENSORS)
"""Tensors of each layer: pre-norm attention and a gated feed-forward."""

HEAD_NORMS = (
    TensorFacts("attn_q_norm", "self_attn.q_norm", None, ("key_dim",)),
    TensorFacts("attn_k_norm", "self_attn.k_norm", None, ("key_dim",)),
)
"""Tensors of each layer: the norms of each head of q and k."""

PROJECTION_NORMS = (
    TensorFacts("attn_q_norm", "self_attn.q_norm", None, ("q_width",)),
    TensorFacts("attn_k_norm", "self_attn.k_norm", None, ("k_width",)),
)
"""Tensors of each layer: the norms of the whole projections q and k."""

POST_ATTENTION_NORM = TensorFacts("post_attention_norm", "post_attention_layernorm", None, ("width",))
POST_NORMS = (
    POST_ATTENTION_NORM,
    TensorFacts("post_ffw_norm", "post_feedforward_layernorm", None, ("width",)),
)
"""Tensors of each layer: the norms behind the mixer and the feed-forward."""

SANDWICH_NORMS = (ATTN_NORM, TensorFacts("ffn_norm", "pre_feedforward_layernorm", None, ("width",)), *POST_NORMS)
"""Tensors of each layer: norms before and behind both blocks."""

QKV = ("attn_q", "attn_k", "attn_v")
ATTENTION = (*QKV, "attn_output")
FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")
"""GGUF stems of projections that have biases together."""
