"""StableLM (arXiv 2402.17834): StableLM 3B, Stable LM 2 1.6B and 12B, Stable Code.

LayerNorm with biases; RoPE turns a quarter of each head. The model of 12B norms each head of q and k with a weight of
its own, and has parallel attention and feed-forward: it lacks `ffn_norm`. The key `use_parallel_residual` says so, too,
but is true in files of some models that are not parallel.
"""

from dataclasses import replace

from edgellm.arch.blocks import NormKind
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    ATTN_NORM,
    FFN_NORM,
    GATED_FEED_FORWARD_TENSORS,
    QKV,
    TensorFacts,
)

FACTS = ArchitectureFacts(
    name="stablelm",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        ATTN_NORM,
        replace(FFN_NORM, optional=True),
        TensorFacts("attn_q_norm", "self_attn.q_layernorm.norms.*", None, ("heads", "key_dim"), optional=True),
        TensorFacts("attn_k_norm", "self_attn.k_layernorm.norms.*", None, ("kv_heads", "key_dim"), optional=True),
    ),
    biases=("attn_norm", "ffn_norm"),
    optional_biases=QKV,
    norm_kind=NormKind.LAYER,
    checkpoints=(
        CheckpointClass(
            name="StableLmForCausalLM",
            defaults={"max_position_embeddings": 4096, "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25},
            bias_keys={"use_qkv_bias": QKV},
        ),
        CheckpointClass(
            name="StableLMEpochForCausalLM",
            defaults={"max_position_embeddings": 4096, "norm_eps": 1e-5, "rope_pct": 0.25},
            bias_keys={"use_qkv_bias": QKV},
        ),
    ),
    writes_head_dim=False,
)
