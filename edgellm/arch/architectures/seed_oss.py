"""Seed-OSS (ByteDance). q, k and v have biases; the norm before the feed-forward has the stem of a post-norm."""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION,
    ATTENTION_TENSORS,
    ATTN_NORM,
    FEED_FORWARD,
    GATED_FEED_FORWARD_TENSORS,
    POST_ATTENTION_NORM,
    QKV,
)

FACTS = ArchitectureFacts(
    name="seed_oss",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        ATTN_NORM,
        POST_ATTENTION_NORM,
    ),
    optional_biases=(*ATTENTION, *FEED_FORWARD),
    ffn_norm_stem="post_attention_norm",
    checkpoints=(
        CheckpointClass(
            name="SeedOssForCausalLM",
            defaults={
                "max_position_embeddings": 524288,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "attention_bias": True,
            },
            bias_keys={"attention_bias": QKV, "attention_out_bias": ("attn_output",), "mlp_bias": FEED_FORWARD},
        ),
    ),
)
