"""Nemotron 3 (NVIDIA): as `nemotron_h`, with experts in place of the feed-forwards.

Sigmoids with biases choose the experts. Experts have no gate, and all tokens pass a shared one. In Nemotron 3 Super the
other experts read a latent of the hidden state, and their sum is projected back. Checkpoints have the class of
`nemotron_h`.
"""

from dataclasses import replace

from edgellm.arch.architectures.nemotron_h import NEMOTRON_TENSORS, attention, in_mixers, recurrent
from edgellm.arch.blocks import Activation
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import (
    EXPERT_TENSORS,
    ROUTER,
    SELECTION_BIAS,
    SHARED_EXPERTS_TENSORS,
    FusedTensor,
    TensorFacts,
)


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The choice of experts, in layers with feed-forwards."""
    return keyed_router(hyper, layer) if hyper.ffn[layer] else None


_UP, _DOWN = EXPERT_TENSORS[1:]

FACTS = ArchitectureFacts(
    name="nemotron_h_moe",
    rope_type=RopeType.NORM,
    block_tensors=(
        *NEMOTRON_TENSORS,
        *in_mixers(
            (
                ROUTER,
                SELECTION_BIAS,
                replace(_UP, shape=("experts", "expert_ffn", "expert_width")),
                replace(_DOWN, shape=("experts", "expert_width", "expert_ffn")),
                *SHARED_EXPERTS_TENSORS[1:],
                TensorFacts("ffn_latent_down", "mlp.fc1_latent_proj", None, ("expert_latent", "width")),
                TensorFacts("ffn_latent_up", "mlp.fc2_latent_proj", None, ("width", "expert_latent")),
            )
        ),
    ),
    fused_tensors=(
        FusedTensor("mixer.experts.up_proj", ("ffn_up_exps",)),
        FusedTensor("mixer.experts.down_proj", ("ffn_down_exps",)),
    ),
    activation=Activation.RELU2,
    ffn_norm_stem="attn_norm",
    output_norm_name="norm_f",
    attention=attention,
    recurrent=recurrent,
    router=router,
    writes_vocab_size=True,
)
