"""Llama, Mistral, Qwen and SmolLM3."""

from typing import Any

from support.families.case import FamilyCase, decoder, nested

_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
_LOCAL = {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1}
_PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "head_dim": 8,
    "image_size": 28,
    "patch_size": 14,
    "rope_theta": 10000.0,
}
_MINISTRAL_ROPE = {
    "rope_type": "yarn",
    "type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.3,
}
_QWEN2_VISION = {
    "depth": 1,
    "embed_dim": 16,
    "hidden_size": 64,
    "num_heads": 2,
    "in_chans": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_QWEN25_VISION = {
    "depth": 1,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_heads": 2,
    "out_hidden_size": 64,
    "fullatt_block_indexes": [0],
    "patch_size": 4,
    "window_size": 16,
}
_QWEN3_VISION = {
    "model_type": "qwen3_vl",
    "depth": 1,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_heads": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 16,
    "patch_size": 4,
    "deepstack_visual_indexes": [0],
}


def _qwen2_vl(model_type: str, architecture: str, vision: dict[str, Any]) -> dict[str, Any]:
    """Their config.json has the text model's settings at the top."""
    mrope = {"type": "mrope", "mrope_section": [2, 3, 3]}
    return decoder(model_type, architecture, rope_theta=1000000.0, rope_scaling=mrope, vision_config=vision)


def _ministral(rope: dict[str, Any], model_type: str) -> dict[str, Any]:
    text = decoder(model_type, "", head_dim=32, rope_parameters=rope, sliding_window=None)
    del text["rope_theta"]
    return nested("mistral3", "Mistral3ForConditionalGeneration", text, vision_config=_PIXTRAL, spatial_merge_size=2)


LLAMA_CASES: dict[str, FamilyCase] = {
    "llama3": FamilyCase(
        "llama",
        "Llama 3's RoPE scaling, tied",
        decoder("llama", "LlamaForCausalLM", head_dim=32, rope_scaling=_LLAMA3, tie_word_embeddings=True),
    ),
    "llama_linear": FamilyCase(
        "llama",
        "linear RoPE scaling, biases of all products",
        decoder(
            "llama",
            "LlamaForCausalLM",
            rope_scaling={"type": "linear", "factor": 4.0},
            attention_bias=True,
            mlp_bias=True,
        ),
    ),
    "llama_yarn": FamilyCase(
        "llama",
        "YaRN with a factor for attention",
        decoder("llama", "LlamaForCausalLM", rope_scaling=_YARN | {"attention_factor": 1.2}),
    ),
    "mistral_window": FamilyCase(
        "llama",
        "a window below a page on all layers of the architecture llama",
        decoder("mistral", "MistralForCausalLM", sliding_window=32),
    ),
    "qwen2_window": FamilyCase(
        "qwen2",
        "biases of q, k and v, a window from the second layer on",
        decoder("qwen2", "Qwen2ForCausalLM", **_LOCAL),
    ),
    "qwen3_window": FamilyCase(
        "qwen3",
        "q and k norms, a window from the second layer on, YaRN",
        decoder("qwen3", "Qwen3ForCausalLM", head_dim=32, rope_scaling=_YARN, **_LOCAL),
    ),
    "qwen2_vl": FamilyCase(
        "qwen2vl",
        "M-RoPE, which text turns like NEOX",
        _qwen2_vl("qwen2_vl", "Qwen2VLForConditionalGeneration", _QWEN2_VISION),
    ),
    "qwen2_5_vl": FamilyCase(
        "qwen2vl",
        "M-RoPE, which text turns like NEOX",
        _qwen2_vl("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", _QWEN25_VISION),
    ),
    "qwen3_vl": FamilyCase(
        "qwen3vl",
        "interleaved M-RoPE, the text model within text_config, deep-stacked images",
        nested(
            "qwen3_vl",
            "Qwen3VLForConditionalGeneration",
            decoder(
                "qwen3_vl_text",
                "",
                head_dim=16,
                rope_theta=5000000.0,
                rope_scaling={"rope_type": "default", "mrope_interleaved": True, "mrope_section": [4, 2, 2]},
            ),
            vision_config=_QWEN3_VISION,
        ),
    ),
    "ministral3": FamilyCase(
        "mistral3",
        "YaRN whose factors on cosine and sine cancel, queries scaled by position, the text model within text_config",
        _ministral(_MINISTRAL_ROPE, "ministral3"),
    ),
    "mistral_small3": FamilyCase(
        "mistral3",
        "the class of Ministral 3 with plain RoPE and heads wider than the model",
        _ministral({"rope_type": "default", "rope_theta": 1000000.0}, "mistral"),
    ),
    "smollm3": FamilyCase(
        "smollm3",
        "no RoPE in every fourth layer, tied",
        decoder(
            "smollm3",
            "SmolLM3ForCausalLM",
            num_hidden_layers=5,
            no_rope_layer_interval=4,
            no_rope_layers=[1, 1, 1, 0, 1],
            rope_theta=5000000.0,
            tie_word_embeddings=True,
            attention_bias=False,
            mlp_bias=False,
            use_sliding_window=False,
            sliding_window=None,
        ),
    ),
}
