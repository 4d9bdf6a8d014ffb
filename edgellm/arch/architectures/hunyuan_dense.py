"""Hunyuan (Tencent) without experts: Hunyuan 0.5B to 7B. Each head of q and k is normed after RoPE.

The checkpoints scale RoPE's base by alpha ("dynamic" there, though it is fixed); converters write the scaled base.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, TensorFacts

HEAD_NORMS = (
    TensorFacts("attn_q_norm", "self_attn.query_layernorm", None, ("key_dim",)),
    TensorFacts("attn_k_norm", "self_attn.key_layernorm", None, ("key_dim",)),
)
"""Tensors of each layer: the norms of each head of q and k."""

FACTS = ArchitectureFacts(
    name="hunyuan-dense",
    rope_type=RopeType.NEOX,
    block_tensors=(*BLOCK, *HEAD_NORMS),
    optional_biases=ATTENTION,
    norm_after_rope=True,
    checkpoints=(
        CheckpointClass(
            name="HunYuanDenseV1ForCausalLM", defaults={"rms_norm_eps": 1e-5}, bias_keys={"attention_bias": ATTENTION}
        ),
    ),
    writes_head_dim=False,
)
