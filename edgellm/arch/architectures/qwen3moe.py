"""Qwen3 (arXiv 2505.09388) with experts: Qwen3 30B-A3B, 235B-A22B, Qwen3-Coder.

As Qwen3, but the feed-forward of each layer is a mixture of experts, whose weights add up to 1.
"""

from edgellm.arch.attention_settings import window_of_some_layers
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


def router(hyper: HyperParameters, layer: int) -> RouterSettings:
    """Softmax over all experts; the weights of the chosen add up to 1."""
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts, normalized=True)


FACTS = ArchitectureFacts(
    name="qwen3moe",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *PRE_NORM_TENSORS, *HEAD_NORMS, ROUTER, *EXPERT_TENSORS),
    fused_tensors=FUSED_EXPERTS,
    optional_biases=ATTENTION,
    attention=window_of_some_layers,
    router=router,
    checkpoints=(
        CheckpointClass(
            name="Qwen3MoeForCausalLM",
            defaults={
                "max_position_embeddings": 32768,
                "num_key_value_heads": 4,
                "num_local_experts": 128,
                "num_experts_per_tok": 8,
                "moe_intermediate_size": 768,
            },
            bias_keys={"attention_bias": ATTENTION},
            sliding_window="by_flag",
        ),
    ),
    optional_biases_in_llamacpp=False,
)
