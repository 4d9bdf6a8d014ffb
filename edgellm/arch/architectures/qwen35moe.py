"""Qwen3.5 and its successors with experts: Qwen3.6 35B-A3B.

As `qwen35`, but the feed-forward of each layer is a mixture of experts, whose weights add up to 1, with a shared expert
behind a gate of its own.
"""

from edgellm.arch.architectures.qwen35 import attention, recurrent
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import normalized_softmax
from edgellm.arch.tensor_names import (
    ATTN_NORM,
    DELTA_NET_TENSORS,
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    GATED_ATTENTION_TENSORS,
    HEAD_NORMS,
    PREDICTION_TENSORS,
    ROUTER,
    SHARED_EXPERT_GATE,
    SHARED_EXPERT_TENSORS,
    TensorFacts,
)

FACTS = ArchitectureFacts(
    name="qwen35moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *GATED_ATTENTION_TENSORS,
        *HEAD_NORMS,
        *DELTA_NET_TENSORS,
        ATTN_NORM,
        TensorFacts("post_attention_norm", "post_attention_layernorm", None, ("width",)),
        ROUTER,
        *EXPERT_TENSORS,
        *SHARED_EXPERT_TENSORS,
        SHARED_EXPERT_GATE,
    ),
    fused_tensors=FUSED_EXPERTS,
    prediction_tensors=PREDICTION_TENSORS,
    ffn_norm_stem="post_attention_norm",
    attention=attention,
    recurrent=recurrent,
    router=normalized_softmax,
    checkpoints=(CheckpointClass(name="Qwen3_5MoeForCausalLM"),),
)
