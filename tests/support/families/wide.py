"""Cases with rows of 256 weights and more, as k-quants need them; they differ from those of the same name in sizes.

Every expert computes every token: else an expert chosen by a rounding error would hide all others.
"""

from dataclasses import replace
from typing import Any

from support.families import CASES
from support.families.case import FamilyCase

_SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "head_dim": 64,
    "global_head_dim": 128,
    "query_pre_attn_scalar": 64,
    "hidden_size_per_layer_input": 256,
    "attention_head_dim": 64,
    "moe_intermediate_size": 256,
    "shared_expert_intermediate_size": 256,
    "rotary_dim": 32,
    "linear_key_head_dim": 64,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 64,
    "shared_intermediate_size": 256,
    "mamba_n_heads": 8,
    "mamba_d_head": 64,
    "mamba_d_ssm": 512,
    "num_heads": 8,
}
_LATENT_SIZES: dict[str, Any] = {
    "kv_lora_rank": 256,
    "q_lora_rank": 256,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "n_routed_experts": 8,
    "n_group": 1,
    "topk_group": 1,
}
_MAMBA_SIZES: dict[str, Any] = {"mamba_num_heads": 8, "mamba_head_dim": 32, "n_groups": 2}
_CHANGES: dict[str, dict[str, Any]] = {
    "hunyuan_moe": {"moe_intermediate_size": [512] * 3},  # `transformers` takes `intermediate_size` for experts
    "falcon_mamba": {"mixer_rms_eps": 1e-5, "time_step_rank": 256},
    "gpt_oss": {"rope_scaling": CASES["gpt_oss"].config["rope_scaling"] | {"truncate": True}},
    "kimi_linear": {
        "linear_attn_config": CASES["kimi_linear"].config["linear_attn_config"] | {"head_dim": 64},
        "q_lora_rank": None,
    },
    "lfm2": {"block_ff_dim": 768, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256},
    "lfm2_moe": {"use_expert_bias": True},
    "nemotron_h": _MAMBA_SIZES | {"use_conv_bias": True},
    "nemotron3_super": _MAMBA_SIZES | {"moe_latent_size": 256, "moe_shared_expert_intermediate_size": 512},
}
"""What else differs. llama.cpp always truncates YaRN's ramp, needs the biases, and has one epsilon for all norms."""

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_USED_EXPERTS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_k",
    "moe_topk",
)
_ALWAYS = ("hidden_size", "intermediate_size", "num_attention_heads")
# Those that llama.cpp computes as `transformers` does.
_NAMES = [
    *("gemma", "gemma2", "gemma3_1b", "gemma4_e2b", "phi4", "ministral3", "smollm3", "granite", "olmo2", "cohere2"),
    *("glm4_biases", "exaone4_1b", "ernie4_5", "hunyuan", "seed_oss", "starcoder2_15b", "stablelm_12b", "apertus"),
    *("muse_glimmer", "qwen3moe", "qwen2moe", "olmoe", "mixtral", "minimax_m2", "deepseek_v3", "granitemoe"),
    *("gemma4_26b", "ernie4_5_21b", "hunyuan_moe", "glm4_5_air", "gpt_oss"),
    *("qwen3_5", "qwen3_5_moe", "qwen3_next", "granite4_h_tiny", "mamba1", "falcon_mamba", "mamba2", "falcon_h1"),
    *("lfm2", "lfm2_moe", "nemotron_h", "nemotron3_super", "kimi_linear"),
]


def _widened(name: str) -> FamilyCase:
    case = CASES[name]
    text = case.config.get("text_config", case.config)
    sizes = _SIZES | _LATENT_SIZES if "kv_lora_rank" in text else _SIZES
    wide = text | {key: _like(text.get(key), value) for key, value in sizes.items() if key in _ALWAYS or text.get(key)}
    wide |= _CHANGES.get(name, {})
    if experts := next((wide[key] for key in _EXPERTS if wide.get(key)), 0):
        wide |= {key: _like(text[key], experts) for key in _USED_EXPERTS if key in text}
    return replace(case, config=case.config | {"text_config": wide} if "text_config" in case.config else wide)


def _like(given: Any, value: int) -> Any:
    """The value, or a list of it where a configuration has one value for each layer."""
    return [value] * len(given) if isinstance(given, list) else value


WIDE_CASES: dict[str, FamilyCase] = {f"wide_{name}": _widened(name) for name in _NAMES}
