"""OLMoE, Mixtral, MiniMax-M2, Granite, ERNIE 4.5, Hunyuan and Phi-3.5 with experts."""

from typing import Any

from support.families.case import FamilyCase, decoder
from support.families.phi import LONG_MAGNITUDES, longrope

_GRANITE = {
    "embedding_multiplier": 0.5,
    "residual_multiplier": 0.35,
    "attention_multiplier": 0.15,
    "logits_scaling": 4.0,
    "intermediate_size": 32,
    "num_local_experts": 8,
}
_HUNYUAN_ALPHA = {
    "type": "dynamic",
    "alpha": 1000.0,
    "factor": 1.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}


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


def _ernie(**settings: Any) -> dict[str, Any]:
    return decoder(
        "ernie4_5_moe",
        "Ernie4_5_MoeForCausalLM",
        num_hidden_layers=4,
        intermediate_size=128,
        moe_intermediate_size=32,
        moe_num_experts=8,
        rope_theta=500000.0,
        use_bias=False,
        **settings,
    )


def _hunyuan(**settings: Any) -> dict[str, Any]:
    return decoder(
        "hunyuan_v1_moe",
        "HunYuanMoEV1ForCausalLM",
        head_dim=16,
        attention_head_dim=16,
        intermediate_size=32,
        moe_intermediate_size=[32] * 3,
        num_experts=8,
        num_shared_expert=[1] * 3,
        moe_topk=[3] * 3,
        use_qk_norm=True,
        use_cla=False,
        use_mixed_mlp_moe=True,
        moe_layer_num_skipped=0,
        tie_word_embeddings=True,
        **settings,
    )


def _phi(factors: dict[str, Any], original: int, **settings: Any) -> dict[str, Any]:
    return decoder(
        "phimoe",
        "PhiMoEForCausalLM",
        intermediate_size=32,
        num_local_experts=16,
        num_experts_per_tok=2,
        router_jitter_noise=0.01,
        max_position_embeddings=2048,
        sliding_window=2048,
        original_max_position_embeddings=original,
        rope_scaling=longrope(8) | LONG_MAGNITUDES | factors | {"original_max_position_embeddings": original},
        **settings,
    )


OTHER_MOE_CASES: dict[str, FamilyCase] = {
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
    "granitemoe": FamilyCase(
        "granitemoe",
        "multipliers, gate and up of all experts in one tensor, tied",
        decoder("granitemoe", "GraniteMoeForCausalLM", **_GRANITE, num_experts_per_tok=3, tie_word_embeddings=True),
    ),
    "granitemoe_shared": FamilyCase(
        "granitemoe",
        "a shared expert, whose gate and up are one tensor",
        decoder(
            "granitemoeshared",
            "GraniteMoeSharedForCausalLM",
            **_GRANITE,
            num_experts_per_tok=2,
            shared_intermediate_size=48,
        ),
    ),
    "ernie4_5_21b": FamilyCase(
        "ernie4_5-moe",
        "a dense layer, two shared experts, a bias for the choice of experts, tied",
        _ernie(moe_k=3, moe_num_shared_experts=2, moe_layer_start_index=1, tie_word_embeddings=True)
        | {"moe_layer_interval": 1, "moe_layer_end_index": 3},
    ),
    "ernie4_5_300b": FamilyCase(
        "ernie4_5-moe",
        "experts in every other layer behind the first, none of them shared",
        _ernie(moe_k=2, moe_num_shared_experts=0, moe_layer_start_index=1, moe_layer_interval=2),
    ),
    "hunyuan_moe": FamilyCase(
        "hunyuan-moe", "q and k norms after RoPE, a shared expert, lists of numbers", _hunyuan(rope_scaling=None)
    ),
    "hunyuan_moe_alpha": FamilyCase(
        "hunyuan-moe", "a RoPE base that alpha raises", _hunyuan(rope_scaling=_HUNYUAN_ALPHA)
    ),
    "phimoe": FamilyCase(
        "phimoe",
        "SparseMixer, LayerNorm, biases of attention and head, LongRoPE within the original context",
        _phi({}, 1024, attention_bias=True, lm_head_bias=True),
    ),
    "phimoe_long": FamilyCase(
        "phimoe",
        "no biases of products, LongRoPE beyond the original context; transformers never takes the long factors here",
        _phi({"long_factor": longrope(8)["short_factor"]}, 128),
    ),
}
