"""Mellum and Laguna, with experts."""

from typing import Any

from support.families.case import FamilyCase, decoder, pattern

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


def _without_theta(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "rope_theta"}


MELLUM_LAGUNA_CASES: dict[str, FamilyCase] = {
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
