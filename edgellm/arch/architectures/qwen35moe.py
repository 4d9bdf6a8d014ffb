"""Qwen3.5 and its successors with experts: Qwen3.6 35B-A3B.

As `qwen35`, but the feed-forward of each layer is a mixture of experts, whose weights add up to 1, with a shared expert
behind a gate of its own.
"""

from edgellm.arch.architectures.qwen35 import DELTA_NET_DEFAULTS, attention, recurrent
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent_names import DELTA_NET_TENSORS
from edgellm.arch.routers import normalized_softmax
from edgellm.arch.tensor_names import (
    ATTN_NORM,
    FUSED_EXPERTS,
    GATED_ATTENTION_TENSORS,
    GATED_SHARED_EXPERT_MIXTURE,
    HEAD_NORMS,
    POST_ATTENTION_NORM,
    PREDICTION_TENSORS,
)

_DEFAULTS = {
    **DELTA_NET_DEFAULTS,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts_per_tok": 8,
    "num_experts": 256,
}

FACTS = ArchitectureFacts(
    name="qwen35moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *GATED_ATTENTION_TENSORS,
        *HEAD_NORMS,
        *DELTA_NET_TENSORS,
        ATTN_NORM,
        POST_ATTENTION_NORM,
        *GATED_SHARED_EXPERT_MIXTURE,
    ),
    fused_tensors=FUSED_EXPERTS,
    prediction_tensors=PREDICTION_TENSORS,
    ffn_norm_stem="post_attention_norm",
    attention=attention,
    recurrent=recurrent,
    router=normalized_softmax,
    checkpoints=tuple(
        CheckpointClass(name=name, defaults=_DEFAULTS)
        for name in ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration")
    ),
)
