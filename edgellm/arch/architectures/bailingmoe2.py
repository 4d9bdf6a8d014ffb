"""Ling 2.0 and Ring 2.0 (arXiv 2510.22115). q, k and v are one matrix, and each head of q and k is normed.

RoPE turns half of each head. The first layers are dense, the others have a shared expert beside those that the router
chooses by biased sigmoids, from the best groups of experts.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import (
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    GATED_FEED_FORWARD_TENSORS,
    PRE_NORM_TENSORS,
    PREDICTION_TENSORS,
    ROUTER,
    SHARED_EXPERTS_TENSORS,
    TensorFacts,
)

FACTS = ArchitectureFacts(
    name="bailingmoe2",
    rope_type=RopeType.NEOX,
    block_tensors=(
        TensorFacts("attn_qkv", "attention.query_key_value", None, ("qkv_width", "width")),
        TensorFacts("attn_output", "attention.dense", None, ("width", "attention_width")),
        TensorFacts("attn_q_norm", "attention.query_layernorm", None, ("key_dim",)),
        TensorFacts("attn_k_norm", "attention.key_layernorm", None, ("key_dim",)),
        *GATED_FEED_FORWARD_TENSORS,
        *PRE_NORM_TENSORS,
        ROUTER,
        TensorFacts("exp_probs_b.bias", "mlp.gate.expert_bias", None, ("experts",), optional=True),
        *EXPERT_TENSORS,
        *SHARED_EXPERTS_TENSORS,
    ),
    fused_tensors=FUSED_EXPERTS,
    prediction_tensors=(
        *PREDICTION_TENSORS,
        TensorFacts("layer_output_norm", "final_layernorm", None, ("width",), optional=True),
    ),
    router=keyed_router,
    checkpoints=(
        CheckpointClass(
            name="BailingMoeV2ForCausalLM",
            defaults={"max_position_embeddings": 32768, "num_key_value_heads": 4, "partial_rotary_factor": 0.5},
        ),
    ),
)
