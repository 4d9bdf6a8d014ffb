"""Granite 4 (IBM): layers of Mamba-2 and a few of attention without RoPE, dense or with experts.

A layer is recurrent where it has no KV heads. Scales are those of `granite`. With experts, a shared expert stands
beside those that the router chooses, whose weights add up to 1.
"""

from dataclasses import replace

from edgellm.arch.architectures import granite, granitemoe
from edgellm.arch.architectures.falcon_h1 import MAMBA_DEFAULTS
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import MambaSettings
from edgellm.arch.recurrent_names import MAMBA_TENSORS
from edgellm.arch.recurrent_settings import mamba_settings
from edgellm.arch.routers import normalized_softmax
from edgellm.arch.tensor_names import ATTENTION, GATED_FEED_FORWARD_TENSORS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings | None:
    """Attention as in `granite`; None for layers without KV heads."""
    return granite.attention(hyper, layer) if hyper.has_heads(layer) else None


def recurrent(hyper: HyperParameters, layer: int) -> MambaSettings | None:
    """Mamba-2 in layers without KV heads."""
    return None if hyper.has_heads(layer) else mamba_settings(hyper)


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """Softmax over the chosen experts; None in dense models."""
    return normalized_softmax(hyper, layer) if hyper.experts else None


_DEFAULTS: dict[str, object] = {
    **granitemoe.EXPERT_DEFAULTS,
    "shared_intermediate_size": 1024,
    **MAMBA_DEFAULTS,
}

FACTS = ArchitectureFacts(
    name="granitehybrid",
    rope_type=RopeType.NORM,
    block_tensors=(
        *granitemoe.FACTS.block_tensors,
        *(replace(each, hugging_face=None) for each in GATED_FEED_FORWARD_TENSORS),
        *MAMBA_TENSORS,
    ),
    fused_tensors=granitemoe.FACTS.fused_tensors,
    optional_biases=ATTENTION,
    attention=attention,
    recurrent=recurrent,
    router=router,
    settings=granite.settings,
    checkpoints=(
        CheckpointClass(
            name="GraniteMoeHybridForCausalLM", defaults=_DEFAULTS, bias_keys={"attention_bias": ATTENTION}
        ),
    ),
    writes_head_dim=False,
    writes_vocab_size=True,
)
