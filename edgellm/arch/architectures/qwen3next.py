"""Qwen3-Next: 80B-A3B and Qwen3-Coder-Next.

As `qwen35moe`, but consecutive heads of values share a key head, and alpha and beta are one projection.
"""

from edgellm.arch.architectures.qwen35 import attention
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import DeltaNetSettings
from edgellm.arch.recurrent_settings import delta_net_settings, is_listed_recurrent
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


def recurrent(hyper: HyperParameters, layer: int) -> DeltaNetSettings | None:
    """Gated DeltaNet with groups of heads; None for layers with attention."""
    return delta_net_settings(hyper, grouped=True) if is_listed_recurrent(hyper, layer) else None


FACTS = ArchitectureFacts(
    name="qwen3next",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *GATED_ATTENTION_TENSORS,
        *HEAD_NORMS,
        *(each for each in DELTA_NET_TENSORS if each.gguf not in ("ssm_alpha", "ssm_beta")),
        TensorFacts("ssm_ba", "linear_attn.in_proj_ba", None, ("twice_recurrent_heads", "width")),
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
    checkpoints=(CheckpointClass(name="Qwen3NextForCausalLM"),),
)
