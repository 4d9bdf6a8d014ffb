"""Mistral 3: Ministral 3, and Mistral Small 3.1 as newer converters write it. Only the text model is computed.

YaRN's factor on cosine and sine is (1 + 0.1 ln s) / (1 + 0.1 m ln s), with the scaling factor s and m the
`mscale_all_dim` of config.json. Queries are multiplied by a factor that grows with the position (Llama 4's scaling of
attention).
"""

import math
from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention, rope_dims
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import AttentionTemperature, RopeType
from edgellm.arch.tensor_names import BLOCK


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with the YaRN and the temperature of these models."""
    settings = grouped_query_attention(hyper, layer)
    rope = hyper.ropes.read(rope_dims(hyper, settings.key_dim), magnitude=yarn_magnitude(hyper))
    return replace(settings, rope=rope, temperature=temperature(hyper))


def yarn_magnitude(hyper: HyperParameters) -> float | None:
    """YaRN's factor on cosine and sine; None for the usual one.

    `rope.scaling.yarn_log_multiplier` is mscale_all_dim; files have no mscale, which is 1 in all models.
    """
    mscale_all_dim = hyper.number("rope.scaling.yarn_log_multiplier", 0.0)
    if not mscale_all_dim:
        return None
    log_factor = math.log(max(1.0, hyper.number("rope.scaling.factor", 1.0)))
    return (1 + 0.1 * log_factor) / (1 + 0.1 * mscale_all_dim * log_factor)


def temperature(hyper: HyperParameters) -> AttentionTemperature | None:
    """The factor of queries by position; None where the file has none."""
    scale = hyper.number("attention.temperature_scale", 0.0)
    return AttentionTemperature(scale, hyper.ropes.original_context) if scale else None


FACTS = ArchitectureFacts(
    name="mistral3",
    rope_type=RopeType.NORM,
    block_tensors=BLOCK,
    attention=attention,
    checkpoints=(
        CheckpointClass(
            name="Mistral3ForConditionalGeneration",
            defaults={"max_position_embeddings": 131072, "num_key_value_heads": 8},
            sliding_window="always",
        ),
        CheckpointClass(
            name="Ministral3ForCausalLM",
            defaults={
                "max_position_embeddings": 262144,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "rms_norm_eps": 1e-5,
                "rope_parameters": {
                    "rope_type": "yarn",
                    "rope_theta": 1000000.0,
                    "factor": 16.0,
                    "original_max_position_embeddings": 16384,
                    "beta_fast": 32.0,
                    "beta_slow": 1.0,
                    "mscale": 1.0,
                    "mscale_all_dim": 1.0,
                    "llama_4_scaling_beta": 0.1,
                },
                "sliding_window": None,
            },
            sliding_window="always",
        ),
    ),
    writes_vocab_size=True,
)
