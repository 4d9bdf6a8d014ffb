"""Granite (IBM): Granite 3 and the dense models of Granite 4, of which some have no RoPE.

Embeddings, scores, the results of blocks and the logits are scaled; logits are divided by their key.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, FEED_FORWARD


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with a scale of its own; without RoPE where `rope.scaling.finetuned` is false."""
    settings = grouped_query_attention(hyper, layer)
    scale = hyper.number("attention.scale", 0.0) or settings.scale
    has_rope = hyper.file.get_bool(hyper.key("rope.scaling.finetuned"), True)
    return replace(settings, scale=scale, rope=settings.rope if has_rope else None)


def settings(hyper: HyperParameters) -> ModelScales:
    """The scales; one that is absent or 0 is 1."""
    return ModelScales(
        embedding_scale=hyper.number("embedding_scale", 0.0) or 1.0,
        residual_scale=hyper.number("residual_scale", 0.0) or 1.0,
        logit_scale=1 / hyper.number("logit_scale"),
    )


SCALE_DEFAULTS: dict[str, object] = {
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
    "logits_scaling": 1.0,
}
"""Defaults of transformers for the scales of all classes of Granite."""

FACTS = ArchitectureFacts(
    name="granite",
    rope_type=RopeType.NORM,
    block_tensors=BLOCK,
    optional_biases=(*ATTENTION, *FEED_FORWARD),
    attention=attention,
    settings=settings,
    checkpoints=(
        CheckpointClass(
            name="GraniteForCausalLM",
            defaults=SCALE_DEFAULTS,
            bias_keys={"attention_bias": ATTENTION, "mlp_bias": FEED_FORWARD},
        ),
    ),
    writes_head_dim=False,
    writes_vocab_size=True,
)
