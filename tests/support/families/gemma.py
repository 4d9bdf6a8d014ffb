"""Gemma 1 to 4."""

from typing import Any

from support.families.case import VOCABULARY, FamilyCase, decoder, nested, pattern

_GEMMA: dict[str, Any] = {
    "head_dim": 32,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
_GEMMA3 = _GEMMA | {
    "num_hidden_layers": 7,
    "query_pre_attn_scalar": 32,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "sliding_window_pattern": 6,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
}
_SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
    "vision_use_head": False,
}
_GEMMA4 = {key: value for key, value in _GEMMA.items() if key != "hidden_act"} | {
    "num_hidden_layers": 6,
    "head_dim": 16,
    "global_head_dim": 32,
    "final_logit_softcapping": 5.0,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
    },
}
_GEMMA4_VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "position_embedding_size": 16,
}
_ALIKE_KV: dict[str, Any] = {
    "attention_k_eq_v": True,
    "num_global_key_value_heads": 1,
    "num_key_value_heads": 4,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "use_bidirectional_attention": "vision",
}


def _gemma4_text(model_type: str = "gemma4_text", **settings: Any) -> dict[str, Any]:
    config = decoder(model_type, "", **_GEMMA4 | settings)
    del config["rope_theta"], config["hidden_act"]
    return config


GEMMA_CASES: dict[str, FamilyCase] = {
    "gemma": FamilyCase(
        "gemma",
        "1 + w in norms, embeddings times sqrt(width), GeGLU, as many KV heads as heads, heads wider than the model",
        decoder("gemma", "GemmaForCausalLM", **_GEMMA, num_key_value_heads=4),
    ),
    "gemma2": FamilyCase(
        "gemma2",
        "soft caps of scores and of logits, four norms, every other layer has a window of more than a page",
        decoder(
            "gemma2",
            "Gemma2ForCausalLM",
            **_GEMMA | {"num_hidden_layers": 4},
            attn_logit_softcapping=5.0,
            final_logit_softcapping=4.0,
            sliding_window=100,
            query_pre_attn_scalar=32,
        ),
    ),
    "gemma3_1b": FamilyCase(
        "gemma3",
        "q and k norms, a window below a page on five layers of six, two RoPE bases",
        decoder("gemma3_text", "Gemma3ForCausalLM", **_GEMMA3, sliding_window=24, num_key_value_heads=1),
    ),
    "gemma3_4b": FamilyCase(
        "gemma3",
        "the text model within text_config, linear RoPE scaling on full layers, a window of more than a page",
        nested(
            "gemma3",
            "Gemma3ForConditionalGeneration",
            decoder(
                "gemma3_text",
                "",
                **_GEMMA3,
                sliding_window=100,
                rope_scaling={"factor": 8.0, "rope_type": "linear"},
            ),
            vision_config=_SIGLIP,
            mm_tokens_per_image=4,
        ),
    ),
    "gemma3n": FamilyCase(
        "gemma3n",
        "AltUp, LAuReL, per-layer embeddings, sparse activations in ten layers, KV shared from the 20th layer on",
        decoder(
            "gemma3n_text",
            "Gemma3nForCausalLM",
            **_GEMMA
            | {"head_dim": 8, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 24}
            | {"rope_theta": 1000000.0},
            rope_local_base_freq=10000.0,
            layer_types=pattern("local", "local", "local", "local", "full", layers=24),
            sliding_window=40,
            num_kv_shared_layers=4,
            vocab_size_per_layer_input=VOCABULARY,
            hidden_size_per_layer_input=256,
            altup_num_inputs=4,
            altup_active_idx=0,
            altup_coef_clip=120.0,
            altup_correct_scale=True,
            laurel_rank=64,
            final_logit_softcapping=30.0,
            activation_sparsity_pattern=[0.95] * 10 + [0.0] * 14,
        ),
    ),
    "gemma4_e2b": FamilyCase(
        "gemma4",
        "per-layer embeddings, KV shared by three layers whose feed-forwards are twice as wide, heads of two sizes, "
        "partial RoPE of full layers, norm of values, layer output scales",
        nested(
            "gemma4",
            "Gemma4ForConditionalGeneration",
            _gemma4_text(
                layer_types=pattern("local", "local", "full", layers=6),
                sliding_window=40,
                num_kv_shared_layers=3,
                use_double_wide_mlp=True,
                hidden_size_per_layer_input=16,
                vocab_size_per_layer_input=VOCABULARY,
            ),
            vision_config=_GEMMA4_VISION,
            audio_config=None,
        ),
    ),
    "gemma4_31b": FamilyCase(
        "gemma4",
        "full layers whose values are their keys, with other numbers of KV heads; a window of more than a page",
        nested(
            "gemma4",
            "Gemma4ForConditionalGeneration",
            _gemma4_text(layer_types=pattern("local", "local", "full", layers=6), sliding_window=100, **_ALIKE_KV),
            vision_config=_GEMMA4_VISION,
            audio_config=None,
        ),
    ),
    "gemma4_12b": FamilyCase(
        "gemma4",
        "the class without a vision tower, values that are keys, a window below a page",
        nested(
            "gemma4_unified",
            "Gemma4UnifiedForConditionalGeneration",
            _gemma4_text(
                "gemma4_unified_text",
                layer_types=pattern("local", "local", "full", layers=6),
                sliding_window=24,
                **_ALIKE_KV,
            ),
            vision_config={"model_type": "gemma4_unified_vision", "mm_embed_dim": 16, "mm_posemb_size": 4}
            | {"output_proj_dims": 16, "patch_size": 4},
            audio_config=None,
        ),
    ),
    "gemma4_26b": FamilyCase(
        "gemma4",
        "experts beside feed-forwards, values that are keys, a window below a page",
        nested(
            "gemma4",
            "Gemma4ForConditionalGeneration",
            _gemma4_text(
                layer_types=pattern("local", "local", "full", layers=6),
                sliding_window=24,
                enable_moe_block=True,
                num_experts=8,
                top_k_experts=3,
                moe_intermediate_size=32,
                **_ALIKE_KV,
            ),
            vision_config=_GEMMA4_VISION,
            audio_config=None,
        ),
    ),
}
