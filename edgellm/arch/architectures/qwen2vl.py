"""The text model of Qwen2-VL (arXiv 2409.12191) and Qwen2.5-VL (arXiv 2502.13923): that of Qwen2.

M-RoPE gives the sections of a head other positions for images; text has one position for all, so that it is RoPE.
"""

from edgellm.arch.attention_settings import window_of_some_layers
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import BLOCK, QKV

_DEFAULTS: dict[str, object] = {
    "max_position_embeddings": 32768,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "max_window_layers": 80,
}

FACTS = ArchitectureFacts(
    name="qwen2vl",
    rope_type=RopeType.NEOX,
    block_tensors=BLOCK,
    biases=QKV,
    attention=window_of_some_layers,
    checkpoints=(
        CheckpointClass(name="Qwen2VLForConditionalGeneration", defaults=_DEFAULTS, sliding_window="by_flag"),
        CheckpointClass(name="Qwen2_5_VLForConditionalGeneration", defaults=_DEFAULTS, sliding_window="by_flag"),
    ),
    writes_head_dim=False,
)
