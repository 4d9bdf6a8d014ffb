"""Families with a mixture of experts in all layers: Qwen, OLMoE, Mixtral and MiniMax-M2."""

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


def _minimax(**settings: Any) -> dict[str, Any]:
    return decoder(
        "minimax_m2",
        "MiniMaxM2ForCausalLM",
        head_dim=32,
        rotary_dim=16,
        num_local_experts=8,
        num_experts_per_tok=2,
        scoring_func="sigmoid",
        use_qk_norm=True,
        qk_norm_type="per_layer",
        use_routing_bias=True,
        shared_intermediate_size=0,
        attn_type_list=[1, 1, 1],
        rms_norm_eps=1e-6,
        rope_theta=5000000.0,
        **settings,
    )


EXPERT_CASES: dict[str, FamilyCase] = {
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
    "olmoe": FamilyCase(
        "olmoe",
        "q and k norms over all heads, many experts, as many KV heads as heads",
        decoder(
            "olmoe",
            "OlmoeForCausalLM",
            num_key_value_heads=4,
            intermediate_size=32,
            num_experts=16,
            num_experts_per_tok=4,
            norm_topk_prob=False,
            clip_qkv=None,
            attention_bias=False,
        ),
    ),
    "mixtral": FamilyCase(
        "llama",
        "two of four experts in a Llama",
        decoder(
            "mixtral",
            "MixtralForCausalLM",
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=None,
            rope_theta=1000000.0,
        ),
    ),
    "minimax_m2": FamilyCase(
        "minimax-m2",
        "experts chosen by biased sigmoids, q and k norms over all heads, RoPE of half a head",
        _minimax(),
    ),
}
