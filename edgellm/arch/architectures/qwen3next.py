"""Qwen3-Next: 80B-A3B and Qwen3-Coder-Next.

As `qwen35moe`, but consecutive heads of values share a key head, and alpha and beta are one projection.
"""

from dataclasses import replace

from edgellm.arch.architectures.qwen35 import DELTA_NET_DEFAULTS, attention
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import DeltaNetSettings
from edgellm.arch.recurrent_names import DELTA_NET_TENSORS
from edgellm.arch.recurrent_settings import delta_net_settings, is_listed_recurrent
from edgellm.arch.routers import normalized_softmax
from edgellm.arch.tensor_names import (
    ATTN_NORM,
    FUSED_EXPERTS,
    GATED_ATTENTION_TENSORS,
    GATED_SHARED_EXPERT_MIXTURE,
    HEAD_NORMS,
    POST_ATTENTION_NORM,
    PREDICTION_TENSORS,
    TensorFacts,
)


def recurrent(hyper: HyperParameters, layer: int) -> DeltaNetSettings | None:
    """Gated DeltaNet with groups of heads; None for layers with attention."""
    return delta_net_settings(hyper, grouped=True) if is_listed_recurrent(hyper, layer) else None


_DEFAULTS = {
    **DELTA_NET_DEFAULTS,
    "num_key_value_heads": 2,
    "intermediate_size": 5632,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts_per_tok": 10,
    "num_experts": 512,
    "norm_topk_prob": True,
}

FACTS = ArchitectureFacts(
    name="qwen3next",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *GATED_ATTENTION_TENSORS,
        *HEAD_NORMS,
        *(
            replace(each, hugging_face=None) if each.gguf in ("attn_qkv", "attn_gate") else each
            for each in DELTA_NET_TENSORS
            if each.gguf not in ("ssm_alpha", "ssm_beta")
        ),
        TensorFacts("ssm_in", "linear_attn.in_proj_qkvz", None, ("qkvz_width", "width")),
        TensorFacts("ssm_ba", "linear_attn.in_proj_ba", None, ("twice_recurrent_heads", "width")),
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
    checkpoints=(CheckpointClass(name="Qwen3NextForCausalLM", defaults=_DEFAULTS),),
)
