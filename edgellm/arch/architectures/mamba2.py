"""Mamba-2 (arXiv 2405.21060): Codestral Mamba and its kin. Each layer is a recurrent mixer alone."""

from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import MambaSettings
from edgellm.arch.recurrent_settings import mamba_settings
from edgellm.arch.tensor_names import ATTN_NORM, MAMBA_TENSORS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings | None:
    """No attention."""
    return None


def recurrent(hyper: HyperParameters, layer: int) -> MambaSettings | None:
    """Mamba-2 in each layer."""
    return mamba_settings(hyper)


FACTS = ArchitectureFacts(
    name="mamba2",
    rope_type=RopeType.NEOX,
    block_tensors=(ATTN_NORM, *MAMBA_TENSORS),
    attention=attention,
    recurrent=recurrent,
    checkpoints=(CheckpointClass(name="Mamba2ForCausalLM"),),
)
