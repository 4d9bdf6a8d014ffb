"""Qwen with experts."""

from typing import Any

from support.families.case import FamilyCase, decoder


def _qwen3(**settings: Any) -> dict[str, Any]:
    return decoder(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=3,
        moe_intermediate_size=32,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        rms_norm_eps=1e-6,
        use_sliding_window=False,
        **settings,
    )


QWEN_MOE_CASES: dict[str, FamilyCase] = {
    "qwen3moe": FamilyCase(
        "qwen3moe", "three of eight experts, whose weights add up to 1, q and k norms", _qwen3(sliding_window=None)
    ),
    "qwen3moe_window": FamilyCase(
        "qwen3moe",
        "a window below a page on all layers, tied",
        _qwen3(tie_word_embeddings=True) | {"use_sliding_window": True, "sliding_window": 40, "max_window_layers": 0},
    ),
    "qwen2moe": FamilyCase(
        "qwen2moe",
        "a shared expert with a gate, weights of a softmax over all experts, biases of q, k and v",
        decoder(
            "qwen2_moe",
            "Qwen2MoeForCausalLM",
            num_experts=6,
            num_experts_per_tok=2,
            moe_intermediate_size=32,
            shared_expert_intermediate_size=48,
            norm_topk_prob=False,
            decoder_sparse_step=1,
            mlp_only_layers=[],
            use_sliding_window=False,
            sliding_window=None,
            qkv_bias=True,
        ),
    ),
}
