"""The text model of Qwen3-VL (arXiv 2511.21631) without experts: that of Qwen3.

M-RoPE gives the frequencies of a head other positions for images; text has one position for all, so that it is RoPE.
The first layers add features of images alone.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, HEAD_NORMS

FACTS = ArchitectureFacts(
    name="qwen3vl",
    rope_type=RopeType.NEOX,
    block_tensors=(*BLOCK, *HEAD_NORMS),
    optional_biases=ATTENTION,
    checkpoints=(
        CheckpointClass(
            name="Qwen3VLForConditionalGeneration",
            defaults={
                "max_position_embeddings": 128000,
                "num_key_value_heads": 32,
                "head_dim": 128,
                "rope_theta": 500000.0,
            },
            bias_keys={"attention_bias": ATTENTION},
        ),
    ),
    optional_biases_in_llamacpp=False,
)
