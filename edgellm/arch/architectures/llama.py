"""Llama (arXiv 2302.13971, 2307.09288): Llama 1-3, TinyLlama, SmolLM2, …, and Mistral (arXiv 2310.06825).

Llama itself has no biases; Hugging Face's `attention_bias` and `mlp_bias` give its relatives some. The first Mistral
models attend to a sliding window.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, FEED_FORWARD

FACTS = ArchitectureFacts(
    name="llama",
    rope_type=RopeType.NORM,
    block_tensors=BLOCK,
    optional_biases=(*ATTENTION, *FEED_FORWARD),
    checkpoints=(
        CheckpointClass(
            name="LlamaForCausalLM",
            bias_keys={"attention_bias": ATTENTION, "mlp_bias": FEED_FORWARD},
        ),
        CheckpointClass(
            name="MistralForCausalLM",
            defaults={"max_position_embeddings": 131072, "num_key_value_heads": 8},
            sliding_window="always",
        ),
    ),
    writes_vocab_size=True,
)
