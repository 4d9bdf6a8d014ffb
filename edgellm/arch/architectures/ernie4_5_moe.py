"""ERNIE 4.5 (Baidu) with experts: ERNIE-4.5-21B-A3B and 300B-A47B.

The first layers are dense, and behind them each layer whose number, from 1, is a multiple of the interval has experts.
Experts are chosen by softmax and a bias. Some models have shared experts, which are one feed-forward.
"""

from dataclasses import replace

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import leading_dense_layers, normalized_softmax
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    GATED_FEED_FORWARD_TENSORS,
    PRE_NORM_TENSORS,
    ROUTER,
    SHARED_EXPERTS_TENSORS,
    TensorFacts,
)

_STEP = "interleave_moe_layer_step"


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The router of a layer with experts, None in dense layers."""
    step = hyper.size(_STEP) if _STEP in hyper else 1
    is_dense = layer < leading_dense_layers(hyper) or (layer + 1) % step
    return None if is_dense else normalized_softmax(hyper, layer)


FACTS = ArchitectureFacts(
    name="ernie4_5-moe",
    rope_type=RopeType.NORM,
    block_tensors=(
        *(*ATTENTION_TENSORS, *PRE_NORM_TENSORS),
        *(*GATED_FEED_FORWARD_TENSORS, ROUTER, *EXPERT_TENSORS),
        *(replace(each, optional=True) for each in SHARED_EXPERTS_TENSORS),
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
            },
        ),
    ),
    checkpoint_rope_type=RopeType.NORM,
    writes_head_dim=False,
)
