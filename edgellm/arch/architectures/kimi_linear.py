"""Kimi Linear (arXiv 2510.26692): three layers of Kimi delta attention for each of latent attention without RoPE.

Layers of latent attention are those with a KV head. The first layers are dense; the others have shared experts beside
those that the router chooses by biased sigmoids, whose weights add up to 1 before they are scaled.
"""

from dataclasses import replace

from edgellm.arch.architectures.deepseek2 import latent_attention
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.kimi_delta import KimiDeltaSettings
from edgellm.arch.latent_attention import LatentSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent_names import KIMI_DELTA_TENSORS
from edgellm.arch.recurrent_settings import kimi_delta_settings
from edgellm.arch.routers import normalized_keyed_router
from edgellm.arch.tensor_names import (
    GATED_FEED_FORWARD_TENSORS,
    LATENT_ATTENTION_TENSORS,
    MIXTRAL_EXPERT_TENSORS,
    MIXTRAL_ROUTER,
    PRE_NORM_TENSORS,
    SELECTION_BIAS,
    SHARED_EXPERTS_TENSORS,
    FusedTensor,
)


def attention(hyper: HyperParameters, layer: int) -> LatentSettings | None:
    """Latent attention without RoPE; None for recurrent layers."""
    return latent_attention(hyper, layer) if hyper.kv_heads[layer] else None


def recurrent(hyper: HyperParameters, layer: int) -> KimiDeltaSettings | None:
    """Kimi delta attention; None for layers with attention."""
    return None if hyper.kv_heads[layer] else kimi_delta_settings(hyper, layer)


_DENSE_IN_TRANSFORMERS = tuple(
    FusedTensor(f"block_sparse_moe.{each}_proj", (f"ffn_{each}",), stacked=False) for each in ("gate", "up", "down")
)
"""The dense feed-forwards of the first layers, under the names that transformers 5 saves."""

FACTS = ArchitectureFacts(
    name="kimi-linear",
    rope_type=RopeType.NORM,
    checkpoint_rope_type=RopeType.NORM,
    block_tensors=(
        *(each for each in LATENT_ATTENTION_TENSORS if each.gguf not in ("attn_q", "attn_output")),
        *KIMI_DELTA_TENSORS,
        *PRE_NORM_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        replace(MIXTRAL_ROUTER, meta=None),
        replace(SELECTION_BIAS, hugging_face="block_sparse_moe.gate.e_score_correction_bias"),
        *(replace(each, meta=None) for each in MIXTRAL_EXPERT_TENSORS),
        *(
            replace(each, hugging_face=f"{each.hugging_face}".replace("mlp", "block_sparse_moe"))
            for each in SHARED_EXPERTS_TENSORS
        ),
    ),
    fused_tensors=_DENSE_IN_TRANSFORMERS,
    attention=attention,
    recurrent=recurrent,
    router=normalized_keyed_router,
    checkpoints=(
        CheckpointClass(
            name="KimiLinearForCausalLM",
            defaults={
                "model_max_length": 1048576,
                "rms_norm_eps": 1e-5,
                "num_experts": 256,
                "num_experts_per_token": 8,
                "num_shared_experts": 1,
                "moe_intermediate_size": 1024,
                "routed_scaling_factor": 2.446,
                "kv_lora_rank": 512,
                "qk_nope_head_dim": 128,
                "qk_rope_head_dim": 64,
                "v_head_dim": 128,
                "num_key_value_heads": 32,
                "head_dim": 64,
                "linear_num_heads": 32,
                "linear_head_dim": 128,
                "linear_conv_kernel_dim": 4,
            },
        ),
    ),
)
