"""Gemma (arXiv 2403.08295): Gemma 2B and 7B, CodeGemma.

The embedding is multiplied by the square root of the width. A checkpoint holds the weights of norms less 1, which the
converter adds.
"""

from edgellm.arch.blocks import Activation
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import BLOCK


def settings(hyper: HyperParameters) -> ModelScales:
    """The scale of the embedding."""
    return ModelScales(embedding_scale=hyper.width**0.5)


FACTS = ArchitectureFacts(
    name="gemma",
    rope_type=RopeType.NEOX,
    block_tensors=BLOCK,
    activation=Activation.GELU,
    settings=settings,
    checkpoints=(
        CheckpointClass(
            name="GemmaForCausalLM",
            defaults={"max_position_embeddings": 8192, "head_dim": 256, "tie_word_embeddings": True},
        ),
    ),
)
