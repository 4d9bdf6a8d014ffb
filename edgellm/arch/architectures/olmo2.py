"""OLMo 2 (arXiv 2501.00656) and OLMo 3 (arXiv 2512.13961).

Norms are behind the blocks, not before them, and q and k are normed as whole projections. OLMo 3 has windows in three
of four layers; the RoPE of these layers is not scaled.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import has_window, interleaved_windows, is_windowed
from edgellm.arch.description import AttentionSettings, RopeType
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.tensor_names import ATTENTION_TENSORS, GATED_FEED_FORWARD_TENSORS, POST_NORMS, PROJECTION_NORMS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention; windowed layers have plain RoPE with the base `rope.freq_base_swa`."""
    settings = interleaved_windows(hyper, layer, every=4)
    if not (has_window(hyper) and is_windowed(hyper, layer, every=4)):
        return settings
    base = hyper.number("rope.freq_base_swa", hyper.number("rope.freq_base", 10000.0))
    return replace(settings, rope=hyper.rope(settings.key_dim, base=base, scaled=False))


FACTS = ArchitectureFacts(
    name="olmo2",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, *PROJECTION_NORMS, *POST_NORMS),
    attention=attention,
)
