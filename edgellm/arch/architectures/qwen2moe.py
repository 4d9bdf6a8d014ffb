"""Qwen2 (arXiv 2407.10671) with experts: Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B.

As Qwen2, but the feed-forward of each layer is a mixture of experts, whose weights are those of a softmax over all. A
shared expert with a gate of its own computes all tokens.
"""

from edgellm.arch.attention_settings import window_of_some_layers
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    FUSED_EXPERTS,
    GATED_SHARED_EXPERT_MIXTURE,
    PRE_NORM_TENSORS,
    QKV,
)


def router(hyper: HyperParameters, layer: int) -> RouterSettings:
    """Softmax over all experts."""
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts)


FACTS = ArchitectureFacts(
    name="qwen2moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *PRE_NORM_TENSORS,
        *GATED_SHARED_EXPERT_MIXTURE,
    ),
    fused_tensors=FUSED_EXPERTS,
    optional_biases=QKV,
    attention=window_of_some_layers,
    router=router,
    checkpoints=(
        CheckpointClass(
            name="Qwen2MoeForCausalLM",
            defaults={
                "max_position_embeddings": 32768,
                "num_key_value_heads": 16,
                "qkv_bias": True,
                "num_experts": 60,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 1408,
                "shared_expert_intermediate_size": 5632,
            },
            bias_keys={"qkv_bias": QKV},
            sliding_window="by_flag",
        ),
    ),
    writes_head_dim=False,
)
