"""Mamba-2 (arXiv 2405.21060): Codestral Mamba and its kin. Each layer is a recurrent mixer alone."""

from dataclasses import replace

from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import MambaSettings
from edgellm.arch.recurrent_names import MAMBA_TENSORS
from edgellm.arch.recurrent_settings import mamba_settings
from edgellm.arch.tensor_names import ATTN_NORM


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings | None:
    """No attention."""
    return None


def recurrent(hyper: HyperParameters, layer: int) -> MambaSettings | None:
    """Mamba-2 in each layer."""
    return mamba_settings(hyper)


_TENSORS = tuple(
    replace(each, hugging_face=f"{each.hugging_face}".replace("mamba.", "mixer.")) for each in MAMBA_TENSORS
)
_DEFAULTS: dict[str, object] = {
    "vocab_size": 32768,
    "hidden_size": 4096,
    "num_hidden_layers": 64,
    "num_heads": 128,
    "head_dim": 64,
    "n_groups": 8,
    "state_size": 128,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "expand": 2,
    "layer_norm_epsilon": 1e-5,
}

FACTS = ArchitectureFacts(
    name="mamba2",
    rope_type=RopeType.NEOX,
    block_tensors=(replace(ATTN_NORM, hugging_face="norm"), *_TENSORS),
    output_norm_name="norm_f",
    attention=attention,
    recurrent=recurrent,
    checkpoints=(CheckpointClass(name="Mamba2ForCausalLM", defaults=_DEFAULTS),),
)
