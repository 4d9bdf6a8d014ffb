"""ERNIE 4.5 (Baidu) with experts: ERNIE-4.5-21B-A3B and 300B-A47B.

The first layers are dense, and behind them each layer whose number, from 1, is a multiple of the interval has experts.
Experts are chosen by softmax and a bias. Some models have shared experts, which are one feed-forward.
"""

from dataclasses import replace

from edgellm.arch.blocks import RouterSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    GATED_FEED_FORWARD_TENSORS,
    PRE_NORM_TENSORS,
    ROUTER,
    SHARED_EXPERT_TENSORS,
    TensorFacts,
)


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """Softmax over all experts, then over the chosen alone; None in dense layers."""
    step = "interleave_moe_layer_step"
    if layer < hyper.integer("leading_dense_block_count", 0) or (layer + 1) % (
        hyper.size(step) if step in hyper else 1
    ):
        return None
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts, normalized=True)


_SHARED = tuple(
    replace(each, hugging_face=f"mlp.shared_experts.{name}", optional=True)
    for each, name in zip(SHARED_EXPERT_TENSORS, ("gate_proj", "up_proj", "down_proj"), strict=True)
)

FACTS = ArchitectureFacts(
    name="ernie4_5-moe",
    rope_type=RopeType.NORM,
    block_tensors=(
        *(*ATTENTION_TENSORS, *PRE_NORM_TENSORS),
        *(*GATED_FEED_FORWARD_TENSORS, ROUTER, *EXPERT_TENSORS, *_SHARED),
        TensorFacts("exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias", None, (1, "experts"), optional=True),
    ),
    router=router,
    checkpoints=(
        CheckpointClass(
            name="Ernie4_5_MoeForCausalLM",
            defaults={
                "max_position_embeddings": 131072,
                "num_attention_heads": 20,
                "num_key_value_heads": 4,
                "rms_norm_eps": 1e-5,
                "rope_theta": 500000.0,
                "tie_word_embeddings": True,
                "moe_intermediate_size": 1536,
                "moe_k": 6,
                "moe_num_experts": 64,
                "moe_num_shared_experts": 2,
                "moe_layer_start_index": 1,
                "moe_layer_interval": 1,
                "moe_layer_end_index": -1,
            },
        ),
    ),
    checkpoint_rope_type=RopeType.NORM,
)
