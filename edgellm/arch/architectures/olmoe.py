"""OLMoE (arXiv 2409.02060).

The feed-forward of each layer is a mixture of experts, whose weights are those of a softmax over all. q and k are
normed as whole projections.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION,
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    PRE_NORM_TENSORS,
    PROJECTION_NORMS,
    ROUTER,
)


def router(hyper: HyperParameters, layer: int) -> RouterSettings:
    """Softmax over all experts."""
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts)


FACTS = ArchitectureFacts(
    name="olmoe",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *PRE_NORM_TENSORS, *PROJECTION_NORMS, ROUTER, *EXPERT_TENSORS),
    fused_tensors=FUSED_EXPERTS,
    optional_biases=ATTENTION,
    router=router,
    checkpoints=(
        CheckpointClass(
            name="OlmoeForCausalLM",
            defaults={
                "max_position_embeddings": 4096,
                "num_key_value_heads": 16,
                "rms_norm_eps": 1e-5,
                "num_experts": 64,
                "num_experts_per_tok": 8,
            },
            bias_keys={"attention_bias": ATTENTION},
        ),
    ),
    writes_head_dim=False,
    optional_biases_in_llamacpp=False,
)
