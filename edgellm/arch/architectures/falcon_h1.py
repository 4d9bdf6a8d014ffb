"""Falcon-H1 (arXiv 2507.22448): each layer has attention and Mamba-2 side by side, which read the same norm."""

from dataclasses import replace

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import MambaSettings
from edgellm.arch.recurrent_settings import mamba_settings
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    ATTN_NORM,
    FFN_NORM,
    GATED_FEED_FORWARD_TENSORS,
    MAMBA_TENSORS,
)


def recurrent(hyper: HyperParameters, layer: int) -> MambaSettings | None:
    """Mamba-2 in each layer."""
    return mamba_settings(hyper)


FACTS = ArchitectureFacts(
    name="falcon-h1",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *MAMBA_TENSORS,
        ATTN_NORM,
        replace(FFN_NORM, is_bare=True),
        *GATED_FEED_FORWARD_TENSORS,
    ),
    recurrent=recurrent,
    checkpoints=(CheckpointClass(name="FalconH1ForCausalLM"),),
)
