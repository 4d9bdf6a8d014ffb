"""Mamba-1 (arXiv 2312.00752): Mamba and Falcon-Mamba (arXiv 2410.05355). Each layer is a recurrent mixer alone.

In Falcon-Mamba the values that the scan reads have norms.
"""

from dataclasses import replace

from edgellm.arch.architectures.mamba2 import attention
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mamba1 import Mamba1Settings
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent_names import MAMBA1_TENSORS
from edgellm.arch.recurrent_settings import mamba1_settings
from edgellm.arch.tensor_names import ATTN_NORM


def recurrent(hyper: HyperParameters, layer: int) -> Mamba1Settings | None:
    """Mamba-1 in each layer."""
    return mamba1_settings(hyper)


_DEFAULTS: dict[str, object] = {
    "vocab_size": 50280,
    "hidden_size": 768,
    "num_hidden_layers": 32,
    "state_size": 16,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "expand": 2,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
}

FACTS = ArchitectureFacts(
    name="mamba",
    rope_type=RopeType.NEOX,
    block_tensors=(replace(ATTN_NORM, hugging_face="norm"), *MAMBA1_TENSORS),
    output_norm_name="norm_f",
    attention=attention,
    recurrent=recurrent,
    checkpoints=(
        CheckpointClass(name="MambaForCausalLM", defaults=_DEFAULTS),
        CheckpointClass(name="FalconMambaForCausalLM", defaults=_DEFAULTS | {"mixer_rms_eps": 1e-6}),
    ),
)
