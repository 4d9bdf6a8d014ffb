"""Phi-3.5-MoE (arXiv 2404.14219) and Phi-mini-MoE, Phi-tiny-MoE: LayerNorm, LongRoPE, and the router of SparseMixer.

Norms, projections of attention and the output matrix have biases. The metadata call the epsilon that of RMSNorm.
"""

from dataclasses import replace

from edgellm.arch.blocks import NormKind
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings, Scoring
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, ATTENTION_TENSORS, EXPERT_TENSORS, PRE_NORM_TENSORS, ROUTER


def router(hyper: HyperParameters, layer: int) -> RouterSettings:
    """The experts of the largest logits, each weighted by the softmax over those whose logits are near its own."""
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts, scoring=Scoring.SPARSE_MIXER)


_GATE, _UP, _DOWN = EXPERT_TENSORS
_DEFAULTS: dict[str, object] = {
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "num_experts_per_tok": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
}

FACTS = ArchitectureFacts(
    name="phimoe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *PRE_NORM_TENSORS,
        replace(ROUTER, hugging_face="block_sparse_moe.gate"),
        replace(_GATE, hugging_face="block_sparse_moe.experts.*.w1"),
        replace(_UP, hugging_face="block_sparse_moe.experts.*.w3"),
        replace(_DOWN, hugging_face="block_sparse_moe.experts.*.w2"),
    ),
    biases=("attn_norm", "ffn_norm"),
    optional_biases=ATTENTION,
    norm_kind=NormKind.LAYER,
    router=router,
    checkpoints=tuple(
        CheckpointClass(name=name, defaults=_DEFAULTS, bias_keys={"attention_bias": ATTENTION})
        for name in ("PhiMoEForCausalLM", "PhimoeForCausalLM")
    ),
    writes_head_dim=False,
)
