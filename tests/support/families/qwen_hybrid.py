"""Qwen3.5 and Qwen3-Next: gated DeltaNet beside attention, with experts and without."""

from typing import Any

from support.families.case import FamilyCase, decoder, nested

_GATED_DELTA: dict[str, Any] = {
    "head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 16,
    "num_hidden_layers": 4,
    "partial_rotary_factor": 0.25,
}
_EXPERTS: dict[str, Any] = {
    "moe_intermediate_size": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "shared_expert_intermediate_size": 48,
}
_ROPE = {
    "mrope_interleaved": True,
    "mrope_section": [2, 1, 1],
    "partial_rotary_factor": 0.25,
    "rope_theta": 10000000.0,
    "rope_type": "default",
}
_VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "num_position_embeddings": 16,
    "out_hidden_size": 64,
    "patch_size": 8,
}


def _without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


QWEN_HYBRID_CASES: dict[str, FamilyCase] = {
    "qwen3_5": FamilyCase(
        "qwen35",
        "three heads of values for each of keys, whose sizes differ; layers in no order, prediction, a vision tower",
        nested(
            "qwen3_5",
            "Qwen3_5ForConditionalGeneration",
            _without(
                decoder(
                    "qwen3_5_text",
                    "Qwen3_5ForCausalLM",
                    **_without(_GATED_DELTA, "partial_rotary_factor")
                    | {"linear_num_value_heads": 6, "linear_value_head_dim": 32, "num_hidden_layers": 5},
                    attn_output_gate=True,
                    full_attention_interval=4,
                    layer_types=[f"{kind}_attention" for kind in ("linear", "full", "linear", "linear", "linear")],
                    mtp_num_hidden_layers=1,
                    rope_parameters=_ROPE,
                    tie_word_embeddings=True,
                ),
                "rope_theta",
            ),
            vision_config=_VISION,
        ),
    ),
    "qwen3_5_moe": FamilyCase(
        "qwen35moe",
        "experts beside a shared one behind a gate, as many heads of values as of keys, a convolution of three rows",
        _without(
            decoder(
                "qwen3_5_moe_text",
                "Qwen3_5MoeForCausalLM",
                **_GATED_DELTA | {"linear_num_key_heads": 4, "linear_conv_kernel_dim": 3},
                **_EXPERTS,
                full_attention_interval=2,
            ),
            "intermediate_size",
        ),
    ),
    "qwen3_next": FamilyCase(
        "qwen3next",
        "q, k, v and z in one matrix, alpha and beta in another, two heads of values for each of keys, prediction",
        decoder(
            "qwen3_next",
            "Qwen3NextForCausalLM",
            **_GATED_DELTA,
            **_EXPERTS,
            decoder_sparse_step=1,
            mlp_only_layers=[],
            norm_topk_prob=True,
        ),
    ),
}
