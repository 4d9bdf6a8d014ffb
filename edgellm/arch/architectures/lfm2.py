"""LFM2 (Liquid AI, arXiv 2511.23404): layers of short convolutions, and a few of attention with normed heads."""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import ShortConvSettings
from edgellm.arch.recurrent_names import SHORT_CONV_TENSORS
from edgellm.arch.recurrent_settings import short_conv_settings
from edgellm.arch.tensor_names import ATTENTION_TENSORS, GATED_FEED_FORWARD_TENSORS, HEAD_NORMS, PRE_NORM_TENSORS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings | None:
    """Attention in layers with KV heads."""
    return grouped_query_attention(hyper, layer) if hyper.has_heads(layer) else None


def recurrent(hyper: HyperParameters, layer: int) -> ShortConvSettings | None:
    """A short convolution in layers without KV heads."""
    return None if hyper.has_heads(layer) else short_conv_settings(hyper)


_NAMES = {"self_attn.o_proj": "self_attn.out_proj"} | {
    f"mlp.{name}_proj": f"feed_forward.w{i}" for name, i in (("gate", 1), ("up", 3), ("down", 2))
}
_NORM_NAMES = {"input_layernorm": "operator_norm", "post_attention_layernorm": "ffn_norm"}
_HEAD_NORM_NAMES = {"self_attn.q_norm": "self_attn.q_layernorm", "self_attn.k_norm": "self_attn.k_layernorm"}

LFM2_TENSORS = tuple(
    replace(each, hugging_face=(_NAMES | _NORM_NAMES | _HEAD_NORM_NAMES).get(f"{each.hugging_face}", each.hugging_face))
    for each in (
        *ATTENTION_TENSORS,
        *HEAD_NORMS,
        *SHORT_CONV_TENSORS,
        *PRE_NORM_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
    )
)
"""Tensors of each layer, by the names that LFM2 gives them."""

LFM2_DEFAULTS = {
    "max_position_embeddings": 128000,
    "norm_eps": 1e-5,
    "num_key_value_heads": 8,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "conv_L_cache": 3,
}
"""Defaults of transformers for all classes of LFM2."""

_DEFAULTS = {
    **LFM2_DEFAULTS,
    "intermediate_size": 12288,
    "block_auto_adjust_ff_dim": True,
    "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 256,
}

FACTS = ArchitectureFacts(
    name="lfm2",
    rope_type=RopeType.NEOX,
    block_tensors=LFM2_TENSORS,
    output_norm_stem="token_embd_norm",
    output_norm_name="embedding_norm",
    attention=attention,
    recurrent=recurrent,
    checkpoints=tuple(
        CheckpointClass(name=name, defaults=_DEFAULTS)
        for name in ("Lfm2ForCausalLM", "LFM2ForCausalLM", "Lfm2VlForConditionalGeneration")
    ),
    writes_head_dim=False,
)
