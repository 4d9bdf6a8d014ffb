"""Cohere 2 with experts: Command A+, North Mini.

As Cohere 2, but the feed-forwards behind those of the first layers are mixtures of experts, whose sum with the shared
experts is halved. The first layers have RoPE also where they have no window. Norms are RMS norms in some models.
"""

from dataclasses import replace

from edgellm.arch.architectures.cohere2 import settings
from edgellm.arch.attention_settings import PATTERN, rope_in_windows
from edgellm.arch.blocks import AttentionSettings, NormKind
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings, Scoring
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router, leading_dense_layers
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    ATTN_NORM,
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    GATED_FEED_FORWARD_TENSORS,
    PREDICTION_TENSORS,
    ROUTER,
    SHARED_EXPERTS_TENSORS,
)


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with RoPE in windowed layers, which the file names, and in the first layers."""
    if not hyper.file.is_array(hyper.key(PATTERN)):
        hyper.file.fail(f"has no array at key {hyper.key(PATTERN)}; get another conversion of the model")
    settings = rope_in_windows(hyper, layer)
    if settings.rope is None and layer < leading_dense_layers(hyper):
        return replace(settings, rope=hyper.rope(settings.key_dim))
    return settings


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """Sigmoids or softmax, the latter always over the chosen alone; half the weights where experts are shared."""
    found = keyed_router(hyper, layer)
    if found is None:
        return None
    scale = found.scale * (0.5 if hyper.has_shared_experts else 1.0)
    return replace(found, normalized=found.normalized or found.scoring is Scoring.SOFTMAX, scale=scale)


FACTS = ArchitectureFacts(
    name="cohere2moe",
    rope_type=RopeType.NORM,
    block_tensors=(
        *ATTENTION_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        ATTN_NORM,
        ROUTER,
        *EXPERT_TENSORS,
        *(replace(each, optional=True) for each in SHARED_EXPERTS_TENSORS),
    ),
    fused_tensors=FUSED_EXPERTS,
    prediction_tensors=PREDICTION_TENSORS,
    norm_kind=NormKind.LAYER,
    rms_norm_by_key=True,
    parallel=True,
    shared_experts_scale=0.5,
    attention=attention,
    router=router,
    settings=settings,
    checkpoints=(
        CheckpointClass(
            name="Cohere2MoeForCausalLM",
            defaults={
                "max_position_embeddings": 8192,
                "head_dim": 128,
                "layer_norm_eps": 1e-5,
                "rms_norm_eps": None,
                "logit_scale": 0.0625,
                "sliding_window": 4096,
                "num_experts": 8,
                "num_experts_per_tok": 2,
                "norm_topk_prob": True,
                "expert_selection_fn": "softmax",
                "tie_word_embeddings": True,
            },
        ),
    ),
    checkpoint_rope_type=RopeType.NORM,
)
