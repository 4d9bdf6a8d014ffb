"""Mellum 2 (JetBrains), with experts in each layer, whose weights add up to 1. Each head of q and k is normed.

Windowed layers, by default three of four, have a RoPE of their own without scaling.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention, has_window, interleaved_windows, rope_dims
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION,
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    HEAD_NORMS,
    PRE_NORM_TENSORS,
    ROUTER,
)


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention, with plain RoPE in windowed layers."""
    if not has_window(hyper):
        return grouped_query_attention(hyper, layer)
    settings = interleaved_windows(hyper, layer, every=4)
    if not settings.window:
        return settings
    base = hyper.number("rope.freq_base_swa", hyper.number("rope.freq_base", 10000.0))
    return replace(settings, rope=hyper.rope(rope_dims(hyper, settings.key_dim), base=base, scaled=False))


def router(hyper: HyperParameters, layer: int) -> RouterSettings:
    """Softmax over all experts; the weights of the chosen add up to 1."""
    return RouterSettings(hyper.experts, hyper.used_experts, normalized=True)


FACTS = ArchitectureFacts(
    name="mellum",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *HEAD_NORMS, *PRE_NORM_TENSORS, ROUTER, *EXPERT_TENSORS),
    fused_tensors=FUSED_EXPERTS,
    optional_biases=ATTENTION,
    attention=attention,
    router=router,
    checkpoints=(
        CheckpointClass(
            name="MellumForCausalLM",
            defaults={
                "max_position_embeddings": 131072,
                "num_key_value_heads": 4,
                "head_dim": 128,
                "rope_theta": 500000.0,
                "sliding_window": 1024,
                "norm_topk_prob": True,
            },
            bias_keys={"attention_bias": ATTENTION},
            sliding_window="always",
            dual_rope=True,
        ),
    ),
    optional_biases_in_llamacpp=False,
)
