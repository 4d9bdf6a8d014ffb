"""GLM-4 of 2025 (arXiv 2406.12793 describes its forerunner): GLM-4-0414, GLM-Z1, and the text model of GLM-4.1V.

Norms are before and behind both blocks. RoPE turns half of each head. Rows of gate and up are one matrix. Files of
models that read images have M-RoPE sections, and the rows of q and k in another order.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION_TENSORS, FUSED_GATE_UP, PRE_NORM_TENSORS, QKV, TensorFacts


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention, with RoPE type NEOX in files with M-RoPE sections: text has one position for all."""
    settings = grouped_query_attention(hyper, layer)
    if settings.rope is None or not any(hyper.rope_sections()):
        return settings
    return replace(settings, rope=hyper.ropes.read(settings.rope.width, rope_type=RopeType.NEOX))


FACTS = ArchitectureFacts(
    name="glm4",
    rope_type=RopeType.NORM,
    block_tensors=(
        *ATTENTION_TENSORS,
        *FUSED_GATE_UP,
        *PRE_NORM_TENSORS,
        TensorFacts("post_attention_norm", "post_self_attn_layernorm", None, ("width",)),
        TensorFacts("post_ffw_norm", "post_mlp_layernorm", None, ("width",)),
    ),
    optional_biases=QKV,
    attention=attention,
    checkpoints=(
        CheckpointClass(
            name="Glm4ForCausalLM",
            defaults={
                "max_position_embeddings": 131072,
                "num_key_value_heads": 2,
                "head_dim": 128,
                "rms_norm_eps": 1.5625e-7,
                "attention_bias": True,
                "partial_rotary_factor": 0.5,
            },
            bias_keys={"attention_bias": QKV},
        ),
    ),
    checkpoint_rope_type=RopeType.NORM,
)
