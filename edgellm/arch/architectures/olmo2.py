"""OLMo 2 (arXiv 2501.00656) and OLMo 3 (arXiv 2512.13961).

Norms are behind the blocks, not before them, and q and k are normed as whole projections. OLMo 3 has windows in three
of four layers; the RoPE of these layers is not scaled.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import interleaved_windows, rope_dims
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION_TENSORS, GATED_FEED_FORWARD_TENSORS, POST_NORMS, PROJECTION_NORMS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention; windowed layers have plain RoPE with the base `rope.freq_base_swa`."""
    settings = interleaved_windows(hyper, layer, every=4)
    if settings.window is None:
        return settings
    base = hyper.number("rope.freq_base_swa", hyper.number("rope.freq_base", 10000.0))
    return replace(settings, rope=hyper.rope(rope_dims(hyper, settings.key_dim), base=base, scaled=False))


FACTS = ArchitectureFacts(
    name="olmo2",
    rope_type=RopeType.NEOX,
    block_tensors=(*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, *PROJECTION_NORMS, *POST_NORMS),
    attention=attention,
    checkpoints=(
        CheckpointClass(name="Olmo2ForCausalLM", defaults={"rms_norm_eps": 1e-5}),
        CheckpointClass(
            name="Olmo3ForCausalLM",
            defaults={"rms_norm_eps": 1e-5, "rope_theta": 500000.0, "sliding_window": 4096},
            dual_rope=True,
        ),
    ),
    writes_head_dim=False,
)
