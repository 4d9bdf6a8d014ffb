"""Qwen2 (arXiv 2407.10671): Qwen2, Qwen2.5, and models distilled into them. q, k and v have biases."""

from edgellm.arch.attention_settings import window_of_some_layers
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import BLOCK, QKV

FACTS = ArchitectureFacts(
    name="qwen2",
    rope_type=RopeType.NEOX,
    block_tensors=BLOCK,
    biases=QKV,
    attention=window_of_some_layers,
    checkpoints=(
        CheckpointClass(
            name="Qwen2ForCausalLM",
            defaults={"max_position_embeddings": 32768, "num_key_value_heads": 32},
            sliding_window="by_flag",
        ),
    ),
    writes_head_dim=False,
)
