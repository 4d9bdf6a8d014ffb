"""ERNIE 4.5 (Baidu) without experts: ERNIE-4.5-0.3B. Some models have biases."""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, FEED_FORWARD

_DEFAULTS: dict[str, object] = {
    "max_position_embeddings": 131072,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
}
_BIASES = {"use_bias": (*ATTENTION, *FEED_FORWARD)}

FACTS = ArchitectureFacts(
    name="ernie4_5",
    rope_type=RopeType.NORM,
    block_tensors=BLOCK,
    optional_biases=(*ATTENTION, *FEED_FORWARD),
    checkpoints=(
        CheckpointClass(name="Ernie4_5ForCausalLM", defaults=_DEFAULTS, bias_keys=_BIASES),
        CheckpointClass(name="Ernie4_5_ForCausalLM", defaults=_DEFAULTS, bias_keys=_BIASES),
    ),
    checkpoint_rope_type=RopeType.NORM,
)
