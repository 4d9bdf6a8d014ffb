"""LFM2: short convolutions and attention, dense or with experts."""

from typing import Any

from support.families.case import FamilyCase, decoder, nested

_LFM2: dict[str, Any] = {
    "conv_L_cache": 3,
    "conv_bias": False,
    "norm_eps": 1e-5,
    "num_hidden_layers": 5,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
}
_VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "model_type": "siglip2_vision_model",
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_patches": 16,
    "patch_size": 8,
    "vision_use_head": False,
}


def _lfm2(model_type: str, architecture: str, **settings: Any) -> dict[str, Any]:
    config = decoder(model_type, architecture, **_LFM2 | settings)
    return {key: value for key, value in config.items() if key not in ("hidden_act", "rms_norm_eps")}


def _old_names(config: dict[str, Any]) -> dict[str, Any]:
    """The same with the names that the first checkpoints have."""
    others = {key: value for key, value in config.items() if key not in ("intermediate_size", "tie_word_embeddings")}
    return others | {"block_ff_dim": config["intermediate_size"], "tie_embedding": True}


_VISION_MODEL = nested(
    "lfm2_vl",
    "Lfm2VlForConditionalGeneration",
    _lfm2(
        "lfm2",
        "Lfm2ForCausalLM",
        block_auto_adjust_ff_dim=False,
        conv_L_cache=2,
        layer_types=["conv", "full_attention", "conv", "conv", "full_attention"],
    ),
    projector_hidden_size=32,
    vision_config=_VISION,
)

LFM_CASES: dict[str, FamilyCase] = {
    "lfm2": FamilyCase(
        "lfm2",
        "the names of the first checkpoints, feed-forwards of 2/3 of the width times a factor, four rows convolved",
        _old_names(
            _lfm2(
                "lfm2",
                "Lfm2ForCausalLM",
                block_auto_adjust_ff_dim=True,
                block_ffn_dim_multiplier=1.3,
                block_multiple_of=32,
                conv_L_cache=4,
                full_attn_idxs=[1, 4],
                intermediate_size=160,
            )
        ),
    ),
    "lfm2_vl": FamilyCase(
        "lfm2",
        "the text model of a vision model, feed-forwards as wide as they say, two rows convolved",
        _VISION_MODEL | {"text_config": _VISION_MODEL["text_config"] | {"architectures": ["Lfm2ForCausalLM"]}},
    ),
    "lfm2_moe": FamilyCase(
        "lfm2moe",
        "two dense layers, then experts by sigmoids without biases; attention first",
        _lfm2(
            "lfm2_moe",
            "Lfm2MoeForCausalLM",
            layer_types=["full_attention", "conv", "conv", "full_attention", "conv"],
            moe_intermediate_size=32,
            norm_topk_prob=True,
            num_dense_layers=2,
            num_experts=8,
            num_experts_per_tok=3,
            routed_scaling_factor=1.0,
            use_expert_bias=False,
        ),
    ),
}
