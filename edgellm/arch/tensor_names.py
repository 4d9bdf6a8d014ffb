"""The tensors of a model: their names in GGUF files and in checkpoints, and their shapes.

Names are stems. In GGUF `attn_q` is `blk.0.attn_q.weight`, and perhaps `blk.0.attn_q.bias`, for layer 0; in Hugging
Face's layout `self_attn.q_proj` is `model.layers.0.self_attn.q_proj.weight`.
"""

from dataclasses import dataclass
from typing import Literal

Dimension = (
    Literal[
        "vocab",
        "width",
        "q_width",
        "k_width",
        "v_width",
        "attention_width",
        "key_dim",
        "ffn",
        "per_layer_width",
        "per_layer_total",
    ]
    | int
)
"""A size of a model or of a layer, or the same number in all models; see `edgellm.arch.hyperparameters.LayerSizes`."""


@dataclass(frozen=True)
class TensorFacts:
    """The names of a weight and its shape, in numpy order. `meta` is its name in Meta's and Mistral's own layout.

    `optional`: some models of the architecture have no such tensor, or some layers.
    """

    gguf: str
    hugging_face: str
    meta: str | None
    shape: tuple[Dimension, ...]
    optional: bool = False


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
GATED_FEED_FORWARD_TENSORS = (
    TensorFacts("ffn_gate", "mlp.gate_proj", "feed_forward.w1", ("ffn", "width")),
    TensorFacts("ffn_up", "mlp.up_proj", "feed_forward.w3", ("ffn", "width")),
    TensorFacts("ffn_down", "mlp.down_proj", "feed_forward.w2", ("width", "ffn")),
)
PRE_NORM_TENSORS = (
    TensorFacts("attn_norm", "input_layernorm", "attention_norm", ("width",)),
    TensorFacts("ffn_norm", "post_attention_layernorm", "ffn_norm", ("width",)),
)
BLOCK = (*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, *PRE_NORM_TENSORS)
"""Tensors of each layer: pre-norm attention and a gated feed-forward."""

HEAD_NORMS = (
    TensorFacts("attn_q_norm", "self_attn.q_norm", None, ("key_dim",)),
    TensorFacts("attn_k_norm", "self_attn.k_norm", None, ("key_dim",)),
)
"""Tensors of each layer: the norms of each head of q and k."""

SANDWICH_NORM_TENSORS = (
    TensorFacts("attn_norm", "input_layernorm", None, ("width",)),
    TensorFacts("post_attention_norm", "post_attention_layernorm", None, ("width",)),
    TensorFacts("ffn_norm", "pre_feedforward_layernorm", None, ("width",)),
    TensorFacts("post_ffw_norm", "post_feedforward_layernorm", None, ("width",)),
)
"""Tensors of each layer: norms before and behind attention and the feed-forward."""

PER_LAYER_INPUT_TENSORS = (
    TensorFacts("inp_gate", "per_layer_input_gate", None, ("per_layer_width", "width")),
    TensorFacts("proj", "per_layer_projection", None, ("width", "per_layer_width")),
    TensorFacts("post_norm", "post_per_layer_input_norm", None, ("width",)),
)
"""Tensors of each layer of models with per-layer embeddings."""

PER_LAYER_TABLE = TensorFacts("per_layer_token_embd", "embed_tokens_per_layer", None, ("vocab", "per_layer_total"))
PER_LAYER_PROJECTION = TensorFacts(
    "per_layer_model_proj", "per_layer_model_projection", None, ("per_layer_total", "width")
)
PER_LAYER_NORM = TensorFacts("per_layer_proj_norm", "per_layer_projection_norm", None, ("per_layer_width",))
PER_LAYER_TENSORS = (PER_LAYER_TABLE, PER_LAYER_PROJECTION, PER_LAYER_NORM)
"""Tensors outside of layers of models with per-layer embeddings."""

LAUREL_RANK, STREAMS = 64, 4
"""The rank of the learned augmented residual, and the streams of alternating updates: the same in all Gemma 3n."""

LAUREL_TENSORS = (
    TensorFacts("laurel_l", "laurel.linear_left", None, (LAUREL_RANK, "width")),
    TensorFacts("laurel_r", "laurel.linear_right", None, ("width", LAUREL_RANK)),
    TensorFacts("laurel_post_norm", "laurel.post_laurel_norm", None, ("width",)),
)
ALTUP_TENSORS = (
    TensorFacts("altup_router", "altup.modality_router", None, (STREAMS, "width")),
    TensorFacts("altup_router_norm", "altup.router_norm", None, ("width",)),
    TensorFacts("altup_predict_coef", "altup.prediction_coefs", None, (STREAMS**2, STREAMS)),
    TensorFacts("altup_correct_coef", "altup.correction_coefs", None, (STREAMS, STREAMS)),
    TensorFacts("altup_correct_scale", "altup.correct_output_scale", None, ("width",)),
)
"""Tensors of each layer of Gemma 3n: a learned augmented residual, and alternating updates."""

STREAM_PROJECTIONS = TensorFacts("altup_proj", "altup_projections", None, (STREAMS - 1, "width", "width"))
STREAM_UNEMBEDDINGS = TensorFacts(
    "altup_unembd_proj", "altup_unembed_projections", None, (STREAMS - 1, "width", "width")
)
"""Tensors outside of layers of models with alternating updates: a matrix for each stream but the first."""

QKV = ("attn_q", "attn_k", "attn_v")
ATTENTION = (*QKV, "attn_output")
FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")
"""GGUF stems of projections that have biases together."""
