"""SmolLM3: every fourth layer has no positions (NoPE, arXiv 2501.18795); no key of a file says so."""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.description import AttentionSettings, RopeType
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.hyperparameters import HyperParameters
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
)
