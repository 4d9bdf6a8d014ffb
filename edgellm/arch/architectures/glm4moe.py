"""GLM-4 with experts (arXiv 2508.06471): GLM-4.5, 4.6 and 4.7, their Air models, and the text model of GLM-4.5V.

RoPE turns half of each head. q, k and v have biases, and the larger models norm each head of q and k. The norm before
the feed-forward has the stem of a post-norm. The first layers are dense, the others have a shared expert beside those
that the router chooses by biased sigmoids.
"""

from dataclasses import replace

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    ATTN_NORM,
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    GATED_FEED_FORWARD_TENSORS,
    HEAD_NORMS,
    POST_ATTENTION_NORM,
    PREDICTION_TENSORS,
    QKV,
    ROUTER,
    SELECTION_BIAS,
    SHARED_EXPERTS_TENSORS,
)

_DEFAULTS: dict[str, object] = {
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "partial_rotary_factor": 0.5,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 1408,
}

FACTS = ArchitectureFacts(
    name="glm4moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *(replace(each, optional=True) for each in HEAD_NORMS),
        *GATED_FEED_FORWARD_TENSORS,
        ATTN_NORM,
        POST_ATTENTION_NORM,
        ROUTER,
        SELECTION_BIAS,
        *EXPERT_TENSORS,
        *SHARED_EXPERTS_TENSORS,
    ),
    fused_tensors=FUSED_EXPERTS,
    prediction_tensors=PREDICTION_TENSORS,
    optional_biases=QKV,
    ffn_norm_stem="post_attention_norm",
    router=keyed_router,
    checkpoints=(
        CheckpointClass(name="Glm4MoeForCausalLM", defaults=_DEFAULTS, bias_keys={"attention_bias": QKV}),
        CheckpointClass(
            name="Glm4vMoeForConditionalGeneration",
            defaults=_DEFAULTS | {"max_position_embeddings": 65536, "attention_bias": True},
            bias_keys={"attention_bias": QKV},
        ),
    ),
)
