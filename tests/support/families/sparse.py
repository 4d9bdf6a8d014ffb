"""GLM-4 with experts, dots.llm1, Llama 4, Cohere 2 with experts, Mellum, Laguna: some layers have experts, not all."""

from typing import Any

from support.families.case import FamilyCase, decoder, nested, pattern

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
_LLAMA4_TEXT: dict[str, Any] = {
    "attention_chunk_size": 8192,
    "attn_scale": 0.1,
    "attn_temperature_tuning": True,
    "floor_scale": 8192,
    "head_dim": 16,
    "intermediate_size": 32,
    "intermediate_size_mlp": 96,
    "no_rope_layers": [],
    "num_experts_per_tok": 1,
    "num_hidden_layers": 4,
    "rope_theta": 500000.0,
}
_LLAMA4_VISION = {
    "model_type": "llama4_vision_model",
    "hidden_size": 16,
    "image_size": 28,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "patch_size": 14,
    "projector_input_dim": 16,
    "projector_output_dim": 16,
    "vision_output_dim": 16,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 1.0,
    "original_max_position_embeddings": 64,
}
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
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
_LAGUNA: dict[str, Any] = {
    "gating": True,
    "head_dim": 16,
    "moe_intermediate_size": 32,
    "moe_routed_scaling_factor": 2.5,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "shared_expert_intermediate_size": 48,
}


def _cohere2moe(**settings: Any) -> dict[str, Any]:
    config = decoder("cohere2_moe", "Cohere2MoeForCausalLM", **_COHERE | settings)
    if "rms_norm_eps" not in settings:
        del config["rms_norm_eps"]
    return config


def _llama4_text(**settings: Any) -> dict[str, Any]:
    return decoder("llama4_text", "Llama4ForCausalLM", **_LLAMA4_TEXT | settings)


def _without_theta(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "rope_theta"}


SPARSE_CASES: dict[str, FamilyCase] = {
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
    "llama4_scout": FamilyCase(
        "llama4",
        "experts in all layers, which read inputs that are weighted; no RoPE in every fourth layer, norms behind RoPE",
        nested(
            "llama4",
            "Llama4ForConditionalGeneration",
            _llama4_text(interleave_moe_layer_step=1, num_local_experts=4, use_qk_norm=True, rope_scaling=_LLAMA3),
            vision_config=_LLAMA4_VISION,
        ),
    ),
    "llama4_maverick": FamilyCase(
        "llama4",
        "128 experts in every second layer, no norms of heads",
        _llama4_text(
            interleave_moe_layer_step=2,
            num_local_experts=128,
            use_qk_norm=False,
            intermediate_size=16,
        ),
    ),
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
    "mellum": FamilyCase(
        "mellum",
        "softmax, a window in three of four layers with a RoPE of their own, YaRN in the others",
        _without_theta(
            decoder(
                "mellum",
                "MellumForCausalLM",
                head_dim=16,
                layer_types=pattern("local", "local", "local", "full", layers=4),
                moe_intermediate_size=32,
                norm_topk_prob=True,
                num_experts=8,
                num_experts_per_tok=2,
                num_hidden_layers=4,
                rope_parameters={
                    "full_attention": _YARN,
                    "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
                },
                sliding_window=40,
            )
        ),
    ),
    "laguna_xs": FamilyCase(
        "laguna",
        "a gate for each head, more heads in windowed layers, whose RoPE is another; biased sigmoids, a shared expert",
        _without_theta(
            decoder(
                "laguna",
                "LagunaForCausalLM",
                **_LAGUNA,
                layer_types=pattern("full", "local", "local", "local", layers=4),
                mlp_layer_types=["dense"] + ["sparse"] * 3,
                num_attention_heads_per_layer=[4, 6, 6, 6],
                rope_parameters={
                    "full_attention": _YARN | {"partial_rotary_factor": 0.5},
                    "sliding_attention": {
                        "rope_type": "default",
                        "rope_theta": 10000.0,
                        "partial_rotary_factor": 1.0,
                    },
                },
                sliding_window=40,
            )
        ),
    ),
    "laguna_m": FamilyCase(
        "laguna",
        "a gate for each value of the heads, no windows, two dense layers",
        _without_theta(
            decoder(
                "laguna",
                "LagunaForCausalLM",
                **_LAGUNA | {"gating": "per-element"},
                layer_types=["full_attention"] * 4,
                mlp_layer_types=["dense"] * 2 + ["sparse"] * 2,
                rope_parameters={"full_attention": _YARN | {"partial_rotary_factor": 1.0}},
                sliding_window=512,
            )
        ),
    ),
}

CHUNK = 64
"""The tokens of a chunk in `CHUNKED_CASES`. In files of Llama 4 they are always 8192, more than a test has."""

CHUNKED_CASES: dict[str, FamilyCase] = {
    "llama4_chunks": FamilyCase(
        "llama4",
        "prompts of several chunks, in which queries without RoPE are scaled by position",
        _llama4_text(
            attention_chunk_size=CHUNK,
            floor_scale=CHUNK,
            interleave_moe_layer_step=2,
            num_local_experts=4,
            use_qk_norm=True,
        ),
    ),
}
"""Cases that edgellm converts and computes only with another `edgellm.arch.architectures.llama4.CHUNK`."""
