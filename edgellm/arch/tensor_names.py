"""Tensors of a layer: their names in GGUF files and in checkpoints, and their shapes.

Names are stems. In GGUF `attn_q` is `blk.0.attn_q.weight`, and perhaps `blk.0.attn_q.bias`; in Hugging Face's layout
`self_attn.q_proj` is `model.layers.0.self_attn.q_proj.weight`.
"""

from dataclasses import dataclass
from typing import Literal

Dimension = Literal["width", "q_width", "kv_width", "head_dim", "ffn"]
"""A field or property of `edgellm.arch.description.ModelSizes`."""


@dataclass(frozen=True)
class BlockTensor:
    """A weight of each layer; `shape` is in numpy order. `meta` is its stem in Meta's and Mistral's own layout."""

    gguf: str
    hugging_face: str
    meta: str | None
    shape: tuple[Dimension, ...]


BLOCK = (
    BlockTensor("attn_q", "self_attn.q_proj", "attention.wq", ("q_width", "width")),
    BlockTensor("attn_k", "self_attn.k_proj", "attention.wk", ("kv_width", "width")),
    BlockTensor("attn_v", "self_attn.v_proj", "attention.wv", ("kv_width", "width")),
    BlockTensor("attn_output", "self_attn.o_proj", "attention.wo", ("width", "q_width")),
    BlockTensor("ffn_gate", "mlp.gate_proj", "feed_forward.w1", ("ffn", "width")),
    BlockTensor("ffn_up", "mlp.up_proj", "feed_forward.w3", ("ffn", "width")),
    BlockTensor("ffn_down", "mlp.down_proj", "feed_forward.w2", ("width", "ffn")),
    BlockTensor("attn_norm", "input_layernorm", "attention_norm", ("width",)),
    BlockTensor("ffn_norm", "post_attention_layernorm", "ffn_norm", ("width",)),
)
"""Pre-norm attention and SwiGLU."""

HEAD_NORMS = (
    BlockTensor("attn_q_norm", "self_attn.q_norm", None, ("head_dim",)),
    BlockTensor("attn_k_norm", "self_attn.k_norm", None, ("head_dim",)),
)
"""RMSNorm over each head of q and k."""

QKV = ("attn_q", "attn_k", "attn_v")
ATTENTION = (*QKV, "attn_output")
FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")
"""GGUF stems of projections that have biases together."""
