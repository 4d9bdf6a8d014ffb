"""Gemma 2 (arXiv 2408.00118): 2B, 9B and 27B.

Every second layer sees the whole context, the others a window. Scores and logits have soft caps, and norms are before
and behind attention and feed-forward. Defaults are those of llama.cpp for files without the key.
"""

from dataclasses import replace
from math import sqrt

from edgellm.arch.attention_settings import grouped_query_attention, is_windowed, window
from edgellm.arch.blocks import Activation, AttentionSettings
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION_TENSORS, GATED_FEED_FORWARD_TENSORS, SANDWICH_NORMS

_LAYERS_OF_27B = 46


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Attention with a soft cap, and a window but in the second of every two layers."""
    settings = grouped_query_attention(hyper, layer)
    return replace(
        settings,
        scale=score_scale(hyper, settings, _LAYERS_OF_27B),
        window=window(hyper, 4096) if is_windowed(hyper, layer, 2) else None,
        soft_cap=hyper.number("attn_logit_softcapping", 50.0),
    )


def score_scale(hyper: HyperParameters, settings: AttentionSettings, layers_of_27b: int) -> float:
    """1 / √key_dim; for the 27B models, which only their number of layers tells, 1 / √(width / heads)."""
    of_27b = hyper.layer_count == layers_of_27b
    return 1 / sqrt(hyper.width / settings.heads if of_27b else settings.key_dim)


def model_settings(hyper: HyperParameters) -> ModelScales:
    """The scale of the embedding, and the soft cap of the logits."""
    return ModelScales(embedding_scale=hyper.width**0.5, logit_soft_cap=hyper.number("final_logit_softcapping", 30.0))


FACTS = ArchitectureFacts(
    name="gemma2",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, *SANDWICH_NORMS),
    activation=Activation.GELU,
    attention=attention,
    settings=model_settings,
    checkpoints=(
        CheckpointClass(
            name="Gemma2ForCausalLM",
            defaults={
                "max_position_embeddings": 8192,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "head_dim": 256,
                "query_pre_attn_scalar": 256,
                "sliding_window": 4096,
                "attn_logit_softcapping": 50.0,
                "final_logit_softcapping": 30.0,
                "tie_word_embeddings": True,
            },
        ),
    ),
)
