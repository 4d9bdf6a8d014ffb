"""DeepSeek-V2 and V3, GLM-4.7-Flash: latent attention."""

from typing import Any

from support.families.case import FamilyCase, decoder


def _yarn(mscale: float) -> dict[str, Any]:
    return {
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 256,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": mscale,
        "mscale_all_dim": mscale,
    }


def _latent(model_type: str, architecture: str, **settings: Any) -> dict[str, Any]:
    return decoder(
        model_type,
        architecture,
        num_key_value_heads=settings.pop("heads", 4),
        first_k_dense_replace=1,
        moe_intermediate_size=32,
        moe_layer_freq=1,
        qk_nope_head_dim=24,
        qk_rope_head_dim=8,
        v_head_dim=20,
        **settings,
    )


DEEPSEEK_CASES: dict[str, FamilyCase] = {
    "deepseek_v2_lite": FamilyCase(
        "deepseek2",
        "q without a low rank, YaRN that scales scores by mscale, softmax of all experts, two shared experts",
        _latent(
            "deepseek_v2",
            "DeepseekV2ForCausalLM",
            rms_norm_eps=1e-6,
            kv_lora_rank=48,
            q_lora_rank=None,
            rope_scaling=_yarn(0.707),
            n_routed_experts=8,
            n_shared_experts=2,
            num_experts_per_tok=3,
            routed_scaling_factor=1.0,
            topk_method="greedy",
            scoring_func="softmax",
            n_group=1,
            topk_group=1,
            norm_topk_prob=False,
        ),
    ),
    "deepseek_v2": FamilyCase(
        "deepseek2",
        "a low rank of q, experts of the groups whose best one is the largest, a scale of their weights",
        _latent(
            "deepseek_v2",
            "DeepseekV2ForCausalLM",
            rms_norm_eps=1e-6,
            kv_lora_rank=32,
            q_lora_rank=40,
            rope_scaling=_yarn(0.707),
            n_routed_experts=16,
            n_shared_experts=1,
            num_experts_per_tok=3,
            routed_scaling_factor=3.0,
            topk_method="group_limited_greedy",
            scoring_func="softmax",
            n_group=8,
            topk_group=3,
            norm_topk_prob=False,
        ),
    ),
    "deepseek_v3": FamilyCase(
        "deepseek2",
        "sigmoids with a bias for the choice, groups by their two best experts, weights that add up to the scale",
        _latent(
            "deepseek_v3",
            "DeepseekV3ForCausalLM",
            rms_norm_eps=1e-6,
            kv_lora_rank=64,
            q_lora_rank=40,
            rope_scaling=_yarn(1.0),
            n_routed_experts=16,
            n_shared_experts=1,
            num_experts_per_tok=3,
            routed_scaling_factor=2.5,
            topk_method="noaux_tc",
            scoring_func="sigmoid",
            n_group=4,
            topk_group=2,
            norm_topk_prob=True,
            num_nextn_predict_layers=1,
        ),
    ),
    "glm_4_7_flash": FamilyCase(
        "deepseek2",
        "norms of latents with an epsilon of their own, heads that do not divide the width, no scaling of RoPE",
        _latent(
            "glm4_moe_lite",
            "Glm4MoeLiteForCausalLM",
            heads=3,
            num_attention_heads=3,
            kv_lora_rank=32,
            q_lora_rank=24,
            rope_theta=1000000.0,
            n_routed_experts=8,
            n_shared_experts=1,
            num_experts_per_tok=2,
            routed_scaling_factor=1.8,
            topk_method="noaux_tc",
            n_group=1,
            topk_group=1,
            norm_topk_prob=True,
            partial_rotary_factor=1.0,
        ),
    ),
}
