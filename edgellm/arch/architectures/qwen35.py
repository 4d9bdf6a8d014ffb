"""Qwen3.5 and its successors, dense: three layers of gated DeltaNet for each of gated attention.

The gate of attention comes with q. RoPE turns a quarter of each head, in the sections of M-RoPE, which for text are the
same as NEOX. The heads of values are ordered so that head h has the key head h mod `ssm.group_count`.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import DeltaNetSettings
from edgellm.arch.recurrent_names import DELTA_NET_TENSORS
from edgellm.arch.recurrent_settings import delta_net_settings, is_listed_recurrent
from edgellm.arch.tensor_names import (
    ATTN_NORM,
    GATED_ATTENTION_TENSORS,
    GATED_FEED_FORWARD_TENSORS,
    HEAD_NORMS,
    POST_ATTENTION_NORM,
    PREDICTION_TENSORS,
)


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings | None:
    """Attention with a gate beside each head of q; None for recurrent layers."""
    if is_listed_recurrent(hyper, layer):
        return None
    return replace(grouped_query_attention(hyper, layer), gate_in_q=True)


def recurrent(hyper: HyperParameters, layer: int) -> DeltaNetSettings | None:
    """Gated DeltaNet, whose key heads repeat in order; None for layers with attention."""
    return delta_net_settings(hyper, grouped=False) if is_listed_recurrent(hyper, layer) else None


DELTA_NET_DEFAULTS = {
    "max_position_embeddings": 32768,
    "head_dim": 256,
    "partial_rotary_factor": 0.25,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
"""Defaults of transformers for all classes with gated DeltaNet."""

_DEFAULTS = {**DELTA_NET_DEFAULTS, "num_key_value_heads": 4}

FACTS = ArchitectureFacts(
    name="qwen35",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *GATED_ATTENTION_TENSORS,
        *HEAD_NORMS,
        *DELTA_NET_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        ATTN_NORM,
        POST_ATTENTION_NORM,
    ),
    prediction_tensors=PREDICTION_TENSORS,
    ffn_norm_stem="post_attention_norm",
    attention=attention,
    recurrent=recurrent,
    checkpoints=tuple(
        CheckpointClass(name=name, defaults=_DEFAULTS)
        for name in ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")
    ),
)
