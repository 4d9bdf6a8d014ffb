"""Muse Glimmer (Meta) without experts: the text model of a model that reads images.

The embedding is normed, and so are both blocks before and behind, with another epsilon behind. Three of four layers
have a window and RoPE, the fourth has neither. The result of the heads is gated. The weight of `attn_q_norm` is the
scale of the normed heads of q. Logits are scaled, then capped.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import rope_in_windows
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    GATED_FEED_FORWARD_TENSORS,
    HEAD_NORMS,
    SANDWICH_NORMS,
    TensorFacts,
)


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with RoPE and a window in three of four layers."""
    return rope_in_windows(hyper, layer)


def settings(hyper: HyperParameters) -> ModelScales:
    """The scale and the soft cap of the logits."""
    return ModelScales(
        logit_scale=hyper.number("logit_scale"),
        logit_soft_cap=hyper.number("final_logit_softcapping", 0.0) or None,
    )


FACTS = ArchitectureFacts(
    name="muse-glimmer",
    rope_type=RopeType.NORM,
    block_tensors=(
        *ATTENTION_TENSORS,
        TensorFacts("attn_gate", "self_attn.gate_proj", None, ("attention_width", "width")),
        *GATED_FEED_FORWARD_TENSORS,
        *(replace(each, hugging_face=None) for each in HEAD_NORMS),
        *SANDWICH_NORMS,
    ),
    post_norm_eps=1e-8,
    norms_embedding=True,
    attention=attention,
    settings=settings,
    checkpoints=(
        CheckpointClass(
            name="MuseGlimmerForConditionalGeneration",
            defaults={
                "vocab_size": 202048,
                "max_position_embeddings": 131072,
                "num_attention_heads": 32,
                "num_key_value_heads": 2,
                "head_dim": 128,
                "rms_norm_eps": 1e-5,
                "sliding_window": 2048,
                "final_logit_softcapping": 20.0,
                "qk_scale_factor": 3.87,
                "output_multiplier": 0.19611613513818404,
            },
        ),
    ),
)
