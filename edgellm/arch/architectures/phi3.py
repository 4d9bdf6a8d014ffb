"""Phi-3 (arXiv 2404.14219) and Phi-4 (arXiv 2412.08905): Phi-3, Phi-3.5 and Phi-4-mini, Phi-4.

Rows of q, k and v are one matrix, and so are those of gate and up. RoPE turns a part of each head in Phi-4-mini. Models
with a context of 131072 tokens have LongRoPE (arXiv 2402.13753). Where a file has a window, all layers have it: 2047
tokens in the models with a context of 4096.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import FUSED_GATE_UP, PRE_NORM_TENSORS, TensorFacts

FACTS = ArchitectureFacts(
    name="phi3",
    rope_type=RopeType.NEOX,
    block_tensors=(
        TensorFacts("attn_qkv", "self_attn.qkv_proj", None, ("qkv_width", "width")),
        TensorFacts("attn_output", "self_attn.o_proj", None, ("width", "attention_width")),
        *FUSED_GATE_UP,
        *PRE_NORM_TENSORS,
    ),
    checkpoints=(
        CheckpointClass(
            name="Phi3ForCausalLM",
            defaults={"max_position_embeddings": 4096, "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
        ),
    ),
    writes_head_dim=False,
)
