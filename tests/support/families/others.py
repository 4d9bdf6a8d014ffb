"""ERNIE, Hunyuan, Seed-OSS, StarCoder2, StableLM, Apertus and Muse Glimmer."""

from typing import Any

from support.families.case import FamilyCase, decoder, nested, pattern

_APERTUS_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_MUSE_VISION = {
    "model_type": "muse_glimmer_vision",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "pos_emb_height": 4,
    "pos_emb_width": 4,
    "max_position_embeddings": 16,
}


def _hunyuan(**settings: Any) -> dict[str, Any]:
    return decoder(
        "hunyuan_v1_dense",
        "HunYuanDenseV1ForCausalLM",
        head_dim=16,
        attention_head_dim=16,
        use_qk_norm=True,
        tie_word_embeddings=True,
        **settings,
    )


def _starcoder2(**settings: Any) -> dict[str, Any]:
    return decoder(
        "starcoder2",
        "Starcoder2ForCausalLM",
        hidden_act="gelu_pytorch_tanh",
        mlp_type="default",
        norm_type="layer_norm",
        norm_epsilon=1e-5,
        use_bias=True,
        **settings,
    )


def _stablelm(**settings: Any) -> dict[str, Any]:
    return decoder("stablelm", "StableLmForCausalLM", layer_norm_eps=1e-5, partial_rotary_factor=0.25, **settings)


def _seed_oss(**settings: Any) -> dict[str, Any]:
    return decoder("seed_oss", "SeedOssForCausalLM", head_dim=32, rope_theta=10000000.0, **settings)


OTHER_CASES: dict[str, FamilyCase] = {
    "ernie4_5": FamilyCase(
        "ernie4_5",
        "RoPE of neighbouring pairs, heads wider than the model, tied",
        decoder("ernie4_5", "Ernie4_5ForCausalLM", head_dim=32, use_bias=False, tie_word_embeddings=True),
    ),
    "hunyuan": FamilyCase("hunyuan-dense", "q and k norms after RoPE, tied", _hunyuan(rope_scaling=None)),
    "hunyuan_alpha": FamilyCase(
        "hunyuan-dense",
        "a RoPE base that alpha raises",
        _hunyuan(
            rope_scaling={
                "type": "dynamic",
                "alpha": 1000.0,
                "factor": 1.0,
                "beta_fast": 32,
                "beta_slow": 1,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            }
        ),
    ),
    "seed_oss": FamilyCase(
        "seed_oss",
        "biases of q, k and v, heads wider than the model",
        _seed_oss(attention_bias=True, attention_out_bias=False, mlp_bias=False),
    ),
    "seed_oss_plain": FamilyCase(
        "seed_oss",
        "no biases, tied",
        _seed_oss(attention_bias=False, attention_out_bias=False, tie_word_embeddings=True),
    ),
    "starcoder2": FamilyCase(
        "starcoder2",
        "LayerNorm with bias, biases of all products, GELU, a window below a page on all layers, tied",
        _starcoder2(sliding_window=40, tie_word_embeddings=True),
    ),
    "starcoder2_15b": FamilyCase(
        "starcoder2", "no window, untied, one KV head", _starcoder2(sliding_window=None, num_key_value_heads=1)
    ),
    "stablelm_1_6b": FamilyCase(
        "stablelm",
        "LayerNorm with bias, RoPE of a quarter of a head, biases of q, k and v",
        _stablelm(use_qkv_bias=True, num_key_value_heads=4),
    ),
    "stablelm_12b": FamilyCase(
        "stablelm",
        "attention and feed-forward in parallel, LayerNorm of each head of q and k",
        _stablelm(use_qkv_bias=False, qk_layernorm=True, use_parallel_residual=True),
    ),
    "apertus": FamilyCase(
        "apertus",
        "xIELU with numbers for each layer, q and k norms, Llama 3's RoPE scaling",
        decoder(
            "apertus",
            "ApertusForCausalLM",
            hidden_act="xielu",
            qk_norm=True,
            post_norm=False,
            attention_bias=False,
            mlp_bias=False,
            rope_scaling=_APERTUS_LLAMA3,
            rope_theta=12000000.0,
        ),
    ),
    "muse_glimmer": FamilyCase(
        "muse-glimmer",
        "RMSNorm of embeddings, q and k norms without weights, attention gates, scaled and capped logits, "
        "no RoPE on full layers",
        nested(
            "muse_glimmer",
            "MuseGlimmerForConditionalGeneration",
            decoder(
                "muse_glimmer_text",
                "",
                num_hidden_layers=4,
                head_dim=16,
                hidden_activation="silu",
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                layer_types=pattern("local", "local", "local", "full", layers=4),
                sliding_window=40,
                final_logit_softcapping=4.0,
                qk_scale_factor=1.7,
                output_multiplier=0.6,
                post_norm_eps=1e-8,
            ),
            vision_config=_MUSE_VISION,
            out_hidden_size=32,
            projector_hidden_size=32,
        ),
    ),
}
