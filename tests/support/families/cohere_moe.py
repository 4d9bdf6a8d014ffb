"""Cohere 2 with experts."""

from typing import Any

from support.families.case import FamilyCase, decoder, pattern

_COHERE: dict[str, Any] = {
    "expert_selection_fn": "sigmoid",
    "first_k_dense_replace": 1,
    "head_dim": 16,
    "intermediate_size": 32,
    "layer_norm_eps": 1e-5,
    "logit_scale": 0.5,
    "norm_topk_prob": True,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 5,
    "num_shared_experts": 2,
    "prefix_dense_intermediate_size": 96,
    "prefix_dense_sliding_window_pattern": 1,
    "shared_expert_combination_strategy": "average",
    "sliding_window": 40,
    "layer_types": ["full_attention", *pattern("local", "local", "local", "full", layers=4)],
    "mlp_layer_types": ["dense"] + ["sparse"] * 4,
    "tie_word_embeddings": True,
}


def _cohere2moe(**settings: Any) -> dict[str, Any]:
    config = decoder("cohere2_moe", "Cohere2MoeForCausalLM", **_COHERE | settings)
    if "rms_norm_eps" not in settings:
        del config["rms_norm_eps"]
    return config


COHERE_MOE_CASES: dict[str, FamilyCase] = {
    "cohere2_moe": FamilyCase(
        "cohere2moe",
        "parallel blocks, a dense layer with RoPE and no window, sigmoids, shared experts whose sum is halved",
        _cohere2moe(),
    ),
    "cohere2_moe_rms": FamilyCase(
        "cohere2moe",
        "RMS norms, softmax over the chosen, no shared expert and no dense layer, an output matrix",
        _cohere2moe(
            rms_norm_eps=1e-6,
            expert_selection_fn="softmax",
            first_k_dense_replace=0,
            layer_types=pattern("local", "local", "local", "full", layers=5),
            mlp_layer_types=["sparse"] * 5,
            num_shared_experts=0,
            tie_word_embeddings=False,
        ),
    ),
}
