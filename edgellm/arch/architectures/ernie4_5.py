"""ERNIE 4.5 (Baidu) without experts: ERNIE-4.5-0.3B. Some models have biases."""

from edgellm.arch.description import RopeType
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.tensor_names import ATTENTION, BLOCK, FEED_FORWARD

FACTS = ArchitectureFacts(
    name="ernie4_5",
    rope_type=RopeType.NORM,
    block_tensors=BLOCK,
    optional_biases=(*ATTENTION, *FEED_FORWARD),
)
