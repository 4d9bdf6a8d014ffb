"""Nemotron-H and Nemotron 2 Nano (arXiv 2504.03624, 2508.14444): each layer is one block of Mamba-2, attention or FFN.

A layer is recurrent where it has neither KV heads nor a feed-forward. Attention has no RoPE, feed-forwards no gate.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import Activation, AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import MambaSettings
from edgellm.arch.recurrent_settings import mamba_settings
from edgellm.arch.tensor_names import ATTENTION_TENSORS, ATTN_NORM, GATED_FEED_FORWARD_TENSORS, MAMBA_TENSORS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings | None:
    """Attention without RoPE, in layers with KV heads."""
    return replace(grouped_query_attention(hyper, layer), rope=None) if hyper.has_heads(layer) else None


def recurrent(hyper: HyperParameters, layer: int) -> MambaSettings | None:
    """Mamba-2, in layers without KV heads and feed-forward."""
    return None if hyper.has_heads(layer) or hyper.ffn[layer] else mamba_settings(hyper)


FACTS = ArchitectureFacts(
    name="nemotron_h",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *MAMBA_TENSORS, *GATED_FEED_FORWARD_TENSORS[1:], ATTN_NORM),
    activation=Activation.RELU2,
    ffn_norm_stem="attn_norm",
    attention=attention,
    recurrent=recurrent,
    checkpoints=(CheckpointClass(name="NemotronHForCausalLM"),),
)
