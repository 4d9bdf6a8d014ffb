"""EXAONE 4.0 (arXiv 2507.11407).

Norms are behind the blocks, not before them, and each head of q and k is normed. The model of 32B has a window and RoPE
in three of four layers, and neither in the fourth; that of 1.2B has RoPE in all layers, and no window.
"""

from edgellm.arch.attention_settings import grouped_query_attention, has_window, rope_in_windows
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION_TENSORS, GATED_FEED_FORWARD_TENSORS, HEAD_NORMS, POST_NORMS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention: that of windowed models where the file has a window."""
    return (rope_in_windows if has_window(hyper) else grouped_query_attention)(hyper, layer)


FACTS = ArchitectureFacts(
    name="exaone4",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, *HEAD_NORMS, *POST_NORMS),
    attention=attention,
    checkpoints=(CheckpointClass(name="Exaone4ForCausalLM", defaults={"rms_norm_eps": 1e-5, "sliding_window": 4096}),),
    writes_head_dim=False,
)
