"""dots.llm1 (arXiv 2506.05767). Each head of q and k is normed; the first layers are dense.

The others have shared experts beside those that the router chooses by biased sigmoids.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import (
    ATTENTION,
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    GATED_FEED_FORWARD_TENSORS,
    HEAD_NORMS,
    PRE_NORM_TENSORS,
    ROUTER,
    SELECTION_BIAS,
    SHARED_EXPERTS_TENSORS,
)

FACTS = ArchitectureFacts(
    name="dots1",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *HEAD_NORMS,
        *GATED_FEED_FORWARD_TENSORS,
        *PRE_NORM_TENSORS,
        ROUTER,
        SELECTION_BIAS,
        *EXPERT_TENSORS,
        *SHARED_EXPERTS_TENSORS,
    ),
    fused_tensors=FUSED_EXPERTS,
    optional_biases=ATTENTION,
    router=keyed_router,
    checkpoints=(
        CheckpointClass(
            name="Dots1ForCausalLM",
            defaults={"max_position_embeddings": 2048, "num_key_value_heads": 32},
            bias_keys={"attention_bias": ATTENTION},
        ),
    ),
    optional_biases_in_llamacpp=False,
)
