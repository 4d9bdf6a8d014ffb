"""Kimi Linear: Kimi delta attention beside latent attention without RoPE."""

from typing import Any

from support.families.case import FamilyCase, decoder


def _kimi(full: list[int], head_dim: int, taps: int, **settings: Any) -> dict[str, Any]:
    """As published, but for the sizes; layers count from 1."""
    made = decoder(
        "kimi_linear",
        "KimiLinearForCausalLM",
        num_hidden_layers=5,
        num_key_value_heads=4,
        first_k_dense_replace=1,
        head_dim=16,
        kv_lora_rank=48,
        linear_attn_config={
            "full_attn_layers": full,
            "head_dim": head_dim,
            "kda_layers": [i for i in range(1, 6) if i not in full],
            "num_heads": 4,
            "short_conv_kernel_size": taps,
        },
        mla_use_nope=True,
        model_max_length=1024,
        moe_intermediate_size=32,
        moe_layer_freq=1,
        moe_renormalize=True,
        moe_router_activation_func="sigmoid",
        num_expert_group=1,
        num_experts=8,
        num_experts_per_token=3,
        num_nextn_predict_layers=0,
        num_shared_experts=1,
        q_lora_rank=None,
        qk_nope_head_dim=24,
        qk_rope_head_dim=8,
        rope_scaling=None,
        routed_scaling_factor=2.446,
        topk_group=1,
        use_grouped_topk=True,
        v_head_dim=20,
        **settings,
    )
    del made["max_position_embeddings"]
    return made


KIMI_CASES: dict[str, FamilyCase] = {
    "kimi_linear": FamilyCase(
        "kimi-linear",
        "a decay for each channel of keys, latent attention without RoPE, biased sigmoids that add up to the scale",
        _kimi([4, 5], 32, 4),
    ),
    "kimi_linear_small": FamilyCase(
        "kimi-linear",
        "heads of 16 values, convolutions of three taps, latent attention first, two shared experts of dense layers",
        _kimi([1], 16, 3) | {"num_shared_experts": 2, "first_k_dense_replace": 2},
    ),
}
