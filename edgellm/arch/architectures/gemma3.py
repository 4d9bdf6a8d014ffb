"""Gemma 3 (arXiv 2503.19786) as a text model: 270M to 27B, and Rnj-1, whose layers all see the whole context.

Five of six layers see a window, and have a RoPE of their own: another base, and never scaled. Each head of q and k is
normed before RoPE, and norms are before and behind attention and feed-forward.
"""

from dataclasses import replace

from edgellm.arch.architectures.gemma2 import score_scale
from edgellm.arch.attention_settings import grouped_query_attention, has_window, is_windowed, rope_dims
from edgellm.arch.blocks import Activation, AttentionSettings
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION_TENSORS, GATED_FEED_FORWARD_TENSORS, HEAD_NORMS, SANDWICH_NORMS

_LAYERS_OF_27B = 62


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Attention with a window but in the last of every six layers."""
    settings = grouped_query_attention(hyper, layer)
    settings = replace(settings, scale=score_scale(hyper, settings, _LAYERS_OF_27B))
    if has_window(hyper) and is_windowed(hyper, layer, 6):
        base = hyper.number("rope.freq_base_swa", 10000.0)
        return replace(settings, rope=hyper.rope(rope_dims(hyper, settings.key_dim), base=base, scaled=False))
    return replace(settings, window=None)


def model_settings(hyper: HyperParameters) -> ModelScales:
    """The scale of the embedding, and the soft cap of the logits, which Rnj-1 has."""
    soft_cap = hyper.number("final_logit_softcapping", 0.0) or None
    return ModelScales(embedding_scale=hyper.width**0.5, logit_soft_cap=soft_cap)


_DEFAULTS: dict[str, object] = {
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "tie_word_embeddings": True,
}

FACTS = ArchitectureFacts(
    name="gemma3",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, *SANDWICH_NORMS, *HEAD_NORMS),
    activation=Activation.GELU,
    attention=attention,
    settings=model_settings,
    checkpoints=(
        CheckpointClass(name="Gemma3ForCausalLM", defaults=_DEFAULTS, dual_rope=True),
        CheckpointClass(name="Gemma3ForConditionalGeneration", defaults=_DEFAULTS, dual_rope=True),
    ),
)
