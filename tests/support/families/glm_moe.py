"""GLM-4 with experts, and its kin: dots.llm1 and Ling 2.0. The first layers are dense."""

from typing import Any

from support.families.case import FamilyCase, decoder

_GLM: dict[str, Any] = {
    "head_dim": 16,
    "attention_bias": True,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "num_nextn_predict_layers": 1,
    "partial_rotary_factor": 0.5,
    "routed_scaling_factor": 1.0,
    "topk_group": 1,
}
_LING: dict[str, Any] = {
    **{
        key: value
        for key, value in _GLM.items()
        if key not in ("n_routed_experts", "n_shared_experts", "attention_bias")
    },
    "n_group": 4,
    "norm_head": False,
    "num_experts": 8,
    "num_shared_experts": 1,
    "rope_theta": 600000.0,
    "routed_scaling_factor": 2.5,
    "score_function": "sigmoid",
    "topk_group": 2,
    "use_bias": False,
    "use_qk_norm": True,
    "use_qkv_bias": False,
    "use_rmsnorm": True,
}


GLM_MOE_CASES: dict[str, FamilyCase] = {
    "glm4_5_air": FamilyCase(
        "glm4moe",
        "a dense layer, biased sigmoids, a shared expert, biases of q, k and v, half of each head rotated, prediction",
        decoder("glm4_moe", "Glm4MoeForCausalLM", **_GLM, use_qk_norm=False, rope_theta=1000000.0),
    ),
    "glm4_5": FamilyCase(
        "glm4moe",
        "the same with norms of heads, two dense layers and a scale of the experts",
        decoder(
            "glm4_moe",
            "Glm4MoeForCausalLM",
            **_GLM | {"first_k_dense_replace": 2, "routed_scaling_factor": 2.5, "num_hidden_layers": 4},
            use_qk_norm=True,
        ),
    ),
    "dots1": FamilyCase(
        "dots1",
        "norms of heads, two shared experts, groups of experts, weights that do not add up to 1",
        decoder(
            "dots1",
            "Dots1ForCausalLM",
            **{
                key: value
                for key, value in _GLM.items()
                if key not in ("num_nextn_predict_layers", "partial_rotary_factor")
            }
            | {"attention_bias": False, "n_shared_experts": 2, "n_group": 4, "topk_group": 2, "norm_topk_prob": False},
            sliding_window=None,
            num_key_value_heads=4,
            max_window_layers=3,
        ),
    ),
    "ling2": FamilyCase(
        "bailingmoe2",
        "q, k and v in one matrix, norms of heads, the best groups of experts, half of each head rotated, prediction",
        decoder(
            "bailing_moe",
            "BailingMoeV2ForCausalLM",
            **_LING,
        ),
    ),
}
