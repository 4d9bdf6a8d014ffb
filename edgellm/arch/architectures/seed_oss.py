"""Seed-OSS (ByteDance). q, k and v have biases; the norm before the feed-forward has the stem of a post-norm."""

from edgellm.arch.description import RopeType
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.tensor_names import (
    ATTENTION,
    ATTENTION_TENSORS,
    ATTN_NORM,
    FEED_FORWARD,
    GATED_FEED_FORWARD_TENSORS,
    TensorFacts,
)

FACTS = ArchitectureFacts(
    name="seed_oss",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        ATTN_NORM,
        TensorFacts("post_attention_norm", "post_attention_layernorm", None, ("width",)),
    ),
    optional_biases=(*ATTENTION, *FEED_FORWARD),
    ffn_norm_stem="post_attention_norm",
)
