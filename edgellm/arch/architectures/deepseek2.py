"""DeepSeek-V2, V2-Lite, V3 and R1 (arXiv 2405.04434, 2412.19437), GLM-4.7-Flash: latent attention, many experts.

V2 chooses experts by softmax, among the groups whose best expert has the largest score; V3 and GLM by sigmoid, with a
bias for the choice alone, among the groups with the largest sum of two. The first layers have a dense feed-forward.

YaRN multiplies scores by m², with m = 1 + 0.1 · mscale_all_dim · ln(factor). Cosine and sine would be
multiplied by the quotient of m with `mscale` and m with `mscale_all_dim`. It is 1, as the two are equal in all
published models; GGUF has no key for `mscale`.
"""

import math
from dataclasses import replace

from edgellm.arch.attention_settings import rope_dims
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.latent_attention import LatentSettings
from edgellm.arch.mixture import RouterSettings, Scoring
from edgellm.arch.positions import RopeType
from edgellm.arch.refuse import refuse
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import (
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    GATED_FEED_FORWARD_TENSORS,
    LATENT_ATTENTION_TENSORS,
    PRE_NORM_TENSORS,
    PREDICTION_TENSORS,
    ROUTER,
    SELECTION_BIAS,
    SHARED_EXPERTS_TENSORS,
)

_GLM_LAYERS, _GLM_VOCABULARY = 47, 154880
"""GLM-4.7-Flash, of which early files do not say that scores are sigmoids."""


def attention(hyper: HyperParameters, layer: int) -> LatentSettings:
    """Latent attention with RoPE, and YaRN that scales scores."""
    settings = latent_attention(hyper, layer)
    check_size(hyper, "attention.value_length", settings.value_dim)
    multiplier, log_factor = _yarn(hyper)
    rope = hyper.ropes.read(settings.shared_dim, magnitude=1.0 if multiplier else None)
    return replace(settings, rope=rope, scale=(1 + multiplier * log_factor) ** 2 * settings.scale)


def latent_attention(hyper: HyperParameters, layer: int) -> LatentSettings:
    """Latent attention without RoPE, with the sizes of heads from the keys `*_mla`."""
    if "attention.key_length_mla" not in hyper:
        problem = "has no attention.key_length_mla: conversions before 2025 have keys and values for each head"
        refuse(hyper.file, f"{problem}; get a newer conversion of the model, with attn_k_b and attn_v_b")
    if "attention.temperature_scale" in hyper:
        refuse(hyper.file, "latent attention with queries that grow with the position is not supported")
    latent = hyper.head_dim("attention.kv_lora_rank", 0)
    head_dim, head_value_dim = (hyper.head_dim(f"attention.{name}_length_mla", 0) for name in ("key", "value"))
    rope = rope_dims(hyper, head_dim)
    _check_sizes(hyper, layer, latent, rope, head_dim)
    hyper.check_heads(layer, latent + rope, max(latent, head_dim, head_value_dim))
    return LatentSettings(
        heads=hyper.heads[layer],
        kv_heads=1,
        key_dim=latent + rope,
        value_dim=latent,
        rope=None,
        scale=head_dim**-0.5,
        plain_dim=head_dim - rope,
        head_value_dim=head_value_dim,
        q_rank=hyper.size("attention.q_lora_rank") if "attention.q_lora_rank" in hyper else 0,
    )


def _check_sizes(hyper: HyperParameters, layer: int, latent: int, rope: int, head_dim: int) -> None:
    kv_heads, fail = hyper.kv_heads[layer], hyper.file.fail
    if kv_heads != 1:
        fail(f"key {hyper.key('attention.head_count_kv')} is {kv_heads}, not 1 as latent attention has; get another")
    if latent % 16:
        fail(f"key {hyper.key('attention.kv_lora_rank')} is {latent}, not a multiple of 16; get another conversion")
    if rope >= head_dim:
        fail(f"RoPE rotates {rope} of the {head_dim} values of a head, which leaves none; get another conversion")
    check_size(hyper, "attention.key_length", latent + rope)


def check_size(hyper: HyperParameters, name: str, value: int) -> None:
    """Check that a key has `value`, which follows from other keys. Raises ModelFileError if it does not."""
    given = hyper.integer(name, value)
    if given != value:
        hyper.file.fail(f"key {hyper.key(name)} is {given}, not {value} as others say; get another conversion")


def _yarn(hyper: HyperParameters) -> tuple[float, float]:
    """0.1 · mscale_all_dim, and ln(factor); zeros without YaRN."""
    if hyper.file.get_str(hyper.key("rope.scaling.type"), "none") != "yarn":
        return 0.0, 0.0
    multiplier = hyper.number("rope.scaling.yarn_log_multiplier", 0.0)
    return multiplier, math.log(max(1.0, hyper.number("rope.scaling.factor", 1.0)))


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The choice of experts; None for the leading layers, which have none."""
    is_glm = hyper.layer_count == _GLM_LAYERS and hyper.vocab == _GLM_VOCABULARY
    settings = keyed_router(hyper, layer, Scoring.SIGMOID if is_glm else Scoring.SOFTMAX)
    if settings and settings.scoring is Scoring.SOFTMAX:
        return replace(settings, group_scores=1)
    return settings


_DEFAULTS = {
    "max_position_embeddings": 2048,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
"""Values of transformers that most classes share."""

FACTS = ArchitectureFacts(
    name="deepseek2",
    rope_type=RopeType.NORM,
    checkpoint_rope_type=RopeType.NORM,
    block_tensors=(
        *LATENT_ATTENTION_TENSORS,
        *PRE_NORM_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        ROUTER,
        SELECTION_BIAS,
        *EXPERT_TENSORS,
        *SHARED_EXPERTS_TENSORS,
    ),
    fused_tensors=FUSED_EXPERTS,
    prediction_tensors=PREDICTION_TENSORS,
    attention=attention,
    router=router,
    checkpoints=(
        CheckpointClass(
            name="DeepseekV2ForCausalLM",
            defaults={
                **_DEFAULTS,
                "head_dim": 64,
                "first_k_dense_replace": 0,
                "n_routed_experts": 64,
                "n_shared_experts": 2,
                "moe_intermediate_size": 1407,
                "routed_scaling_factor": 1.0,
            },
        ),
        CheckpointClass(
            name="DeepseekV3ForCausalLM",
            defaults={
                **_DEFAULTS,
                "max_position_embeddings": 4096,
                "head_dim": 64,
                "first_k_dense_replace": 3,
                "n_routed_experts": 256,
                "n_shared_experts": 1,
                "num_experts_per_tok": 8,
                "moe_intermediate_size": 2048,
                "routed_scaling_factor": 2.5,
                "norm_topk_prob": True,
                "n_group": 8,
                "topk_group": 4,
            },
        ),
        CheckpointClass(
            name="Glm4MoeLiteForCausalLM",
            defaults={
                **_DEFAULTS,
                "max_position_embeddings": 202752,
                "rms_norm_eps": 1e-5,
                "n_routed_experts": 64,
                "n_shared_experts": 1,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 1536,
                "routed_scaling_factor": 1.8,
                "norm_topk_prob": True,
                "n_group": 1,
                "topk_group": 1,
                "q_lora_rank": 768,
                "v_head_dim": 256,
                "qk_nope_head_dim": 192,
            },
        ),
    ),
)
