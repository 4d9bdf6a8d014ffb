"""Nemotron 3 (NVIDIA): as `nemotron_h`, with experts in place of the feed-forwards.

Scores are biased sigmoids. Experts have no gate, and a shared expert computes all tokens.
"""

from edgellm.arch.architectures.nemotron_h import attention, recurrent
from edgellm.arch.blocks import Activation
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    ATTN_NORM,
    EXPERT_TENSORS,
    MAMBA_TENSORS,
    ROUTER,
    SELECTION_BIAS,
    SHARED_EXPERTS_TENSORS,
)


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The choice of experts, in layers with feed-forwards."""
    return keyed_router(hyper, layer) if hyper.ffn[layer] else None


FACTS = ArchitectureFacts(
    name="nemotron_h_moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *MAMBA_TENSORS,
        ATTN_NORM,
        ROUTER,
        SELECTION_BIAS,
        *EXPERT_TENSORS[1:],
        *SHARED_EXPERTS_TENSORS[1:],
    ),
    activation=Activation.RELU2,
    ffn_norm_stem="attn_norm",
    attention=attention,
    recurrent=recurrent,
    router=router,
)
