"""LFM2 with experts: LFM2-8B-A1B. As `lfm2`, but layers behind the first have experts, chosen by biased sigmoids."""

from dataclasses import replace

from edgellm.arch.architectures.lfm2 import LFM2_TENSORS, attention, recurrent
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import EXPERT_TENSORS, FUSED_EXPERTS, ROUTER, SELECTION_BIAS


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """Sigmoids whose weights add up to 1, without any key; None for the leading layers."""
    settings = keyed_router(hyper, layer)
    return replace(settings, normalized=True) if settings else None


FACTS = ArchitectureFacts(
    name="lfm2moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *LFM2_TENSORS,
        ROUTER,
        SELECTION_BIAS,
        *EXPERT_TENSORS,
    ),
    fused_tensors=FUSED_EXPERTS,
    output_norm_stem="token_embd_norm",
    attention=attention,
    recurrent=recurrent,
    router=router,
    checkpoints=(CheckpointClass(name="Lfm2MoeForCausalLM"),),
)
