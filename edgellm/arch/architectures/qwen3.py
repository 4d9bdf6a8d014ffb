"""Qwen3 (arXiv 2505.09388) without experts: Qwen3 0.6B to 32B.

Each head of q and k is normed before RoPE. The size of a head is given: all heads together are often wider than the
model. Hugging Face's `attention_bias` gives some models biases.
"""

from edgellm.arch.attention_settings import window_of_some_layers
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, HEAD_NORMS

FACTS = ArchitectureFacts(
    name="qwen3",
    rope_type=RopeType.NEOX,
    block_tensors=(*BLOCK, *HEAD_NORMS),
    optional_biases=ATTENTION,
    attention=window_of_some_layers,
    checkpoints=(
        CheckpointClass(
            name="Qwen3ForCausalLM",
            defaults={"max_position_embeddings": 32768, "num_key_value_heads": 32, "head_dim": 128},
            bias_keys={"attention_bias": ATTENTION},
            sliding_window="by_flag",
        ),
    ),
    optional_biases_in_llamacpp=False,
)
