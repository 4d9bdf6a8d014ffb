"""MiniMax-M2: a mixture of experts in all layers, chosen by biased sigmoids, whose weights add up to 1.

q and k are normed as whole projections, and heads are rotated in part.
"""

from dataclasses import replace

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings, Scoring
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import scoring_of
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    MIXTRAL_EXPERT_TENSORS,
    MIXTRAL_ROUTER,
    PRE_NORM_TENSORS,
    PROJECTION_NORMS,
    SELECTION_BIAS,
)


def router(hyper: HyperParameters, layer: int) -> RouterSettings:
    """Sigmoids, divided by the sum of those of the chosen experts."""
    scoring = scoring_of(hyper, Scoring.SIGMOID)
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts, scoring=scoring, normalized=True)


FACTS = ArchitectureFacts(
    name="minimax-m2",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *PRE_NORM_TENSORS,
        *PROJECTION_NORMS,
        MIXTRAL_ROUTER,
        replace(SELECTION_BIAS, hugging_face="block_sparse_moe.e_score_correction_bias", optional=False),
        *MIXTRAL_EXPERT_TENSORS,
    ),
    router=router,
    checkpoints=(
        CheckpointClass(
            name="MiniMaxM2ForCausalLM",
            defaults={
                "max_position_embeddings": 196608,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "rope_theta": 5000000.0,
                "num_local_experts": 256,
                "num_experts_per_tok": 8,
            },
        ),
    ),
)
