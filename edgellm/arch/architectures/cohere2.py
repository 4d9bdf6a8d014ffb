"""Cohere 2: Command R7B and Command A (arXiv 2504.00698).

Attention and feed-forward read the same norm, a LayerNorm without bias. Three of four layers have a window and RoPE,
the fourth has neither. Logits are multiplied by a scale.
"""

from edgellm.arch.attention_settings import rope_in_windows
from edgellm.arch.blocks import AttentionSettings, NormKind
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION_TENSORS, ATTN_NORM, GATED_FEED_FORWARD_TENSORS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with RoPE and a window in three of four layers."""
    return rope_in_windows(hyper, layer)


def settings(hyper: HyperParameters) -> ModelScales:
    """The scale of the logits."""
    return ModelScales(logit_scale=hyper.number("logit_scale"))


FACTS = ArchitectureFacts(
    name="cohere2",
    rope_type=RopeType.NORM,
    block_tensors=(*ATTENTION_TENSORS, *GATED_FEED_FORWARD_TENSORS, ATTN_NORM),
    norm_kind=NormKind.LAYER,
    parallel=True,
    attention=attention,
    settings=settings,
    checkpoints=(
        CheckpointClass(
            name="Cohere2ForCausalLM",
            defaults={
                "max_position_embeddings": 8192,
                "layer_norm_eps": 1e-5,
                "logit_scale": 0.0625,
                "sliding_window": 4096,
                "tie_word_embeddings": True,
            },
        ),
    ),
    checkpoint_rope_type=RopeType.NORM,
)
