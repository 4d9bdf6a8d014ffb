"""Llama (arXiv 2302.13971, 2307.09288): Llama 1-3, TinyLlama, SmolLM2, …, Mistral (2310.06825), Mixtral (2401.04088).

Llama itself has no biases; Hugging Face's `attention_bias` and `mlp_bias` give its relatives some. The first Mistral
models attend to a sliding window. The feed-forward of each layer of Mixtral is a mixture of experts, whose weights add
up to 1.
"""

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, BLOCK, FEED_FORWARD, MIXTRAL_EXPERT_TENSORS, MIXTRAL_ROUTER


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """Softmax over all experts, then over the chosen alone; None in models without experts."""
    if not hyper.experts:
        return None
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts, normalized=True)


FACTS = ArchitectureFacts(
    name="llama",
    rope_type=RopeType.NORM,
    block_tensors=(*BLOCK, MIXTRAL_ROUTER, *MIXTRAL_EXPERT_TENSORS),
    optional_biases=(*ATTENTION, *FEED_FORWARD),
    router=router,
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
        CheckpointClass(
            name="MixtralForCausalLM",
            defaults={
                "max_position_embeddings": 131072,
                "num_key_value_heads": 8,
                "rms_norm_eps": 1e-5,
                "rope_theta": 1000000.0,
                "sliding_window": None,
                "num_local_experts": 8,
                "num_experts_per_tok": 2,
            },
            sliding_window="always",
        ),
    ),
    writes_vocab_size=True,
)
