"""SmolLM3: every fourth layer has no positions (NoPE, arXiv 2501.18795); no key of a file says so."""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, FEED_FORWARD


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention, without RoPE in the last of each four layers."""
    settings = grouped_query_attention(hyper, layer)
    return settings if layer % 4 < 3 else replace(settings, rope=None)


FACTS = ArchitectureFacts(
    name="smollm3",
    rope_type=RopeType.NORM,
    block_tensors=BLOCK,
    optional_biases=(*ATTENTION, *FEED_FORWARD),
    attention=attention,
    checkpoints=(
        CheckpointClass(
            name="SmolLM3ForCausalLM",
            defaults={
                "max_position_embeddings": 32768,
                "num_key_value_heads": 4,
                "rope_theta": 2000000.0,
                "tie_word_embeddings": True,
            },
            bias_keys={"attention_bias": ATTENTION, "mlp_bias": FEED_FORWARD},
            sliding_window="by_flag",
        ),
    ),
    writes_head_dim=False,
    writes_vocab_size=True,
)
