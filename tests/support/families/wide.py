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
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_ALWAYS = ("hidden_size", "intermediate_size", "num_attention_heads")
# Those that llama.cpp computes as `transformers` does.
_NAMES = [
    *("gemma", "gemma2", "gemma3_1b", "gemma4_e2b", "phi4", "ministral3", "smollm3", "granite", "olmo2", "cohere2"),
    *("glm4_biases", "exaone4_1b", "ernie4_5", "hunyuan", "seed_oss", "starcoder2_15b", "stablelm_12b", "apertus"),
    *("muse_glimmer", "qwen3moe", "qwen2moe", "olmoe", "mixtral", "minimax_m2"),
    "deepseek_v3",
]


def _widened(case: FamilyCase) -> FamilyCase:
    text = case.config.get("text_config", case.config)
    sizes = _SIZES | _LATENT_SIZES if "kv_lora_rank" in text else _SIZES
    wide = text | {key: value for key, value in sizes.items() if key in _ALWAYS or text.get(key)}
    if experts := next((wide[key] for key in _EXPERTS if wide.get(key)), 0):
        wide["num_experts_per_tok"] = experts
    return replace(case, config=case.config | {"text_config": wide} if "text_config" in case.config else wide)


WIDE_CASES: dict[str, FamilyCase] = {f"wide_{name}": _widened(CASES[name]) for name in _NAMES}
