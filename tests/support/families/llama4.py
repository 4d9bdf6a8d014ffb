"""Llama 4."""

from typing import Any

from support.families.case import FamilyCase, decoder, nested

_LLAMA4_TEXT: dict[str, Any] = {
    "attention_chunk_size": 8192,
    "attn_scale": 0.1,
    "attn_temperature_tuning": True,
    "floor_scale": 8192,
    "head_dim": 16,
    "intermediate_size": 32,
    "intermediate_size_mlp": 96,
    "no_rope_layers": [],
    "num_experts_per_tok": 1,
    "num_hidden_layers": 4,
    "rope_theta": 500000.0,
}
_LLAMA4_VISION = {
    "model_type": "llama4_vision_model",
    "hidden_size": 16,
    "image_size": 28,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "patch_size": 14,
    "projector_input_dim": 16,
    "projector_output_dim": 16,
    "vision_output_dim": 16,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 1.0,
    "original_max_position_embeddings": 64,
}


def _llama4_text(**settings: Any) -> dict[str, Any]:
    return decoder("llama4_text", "Llama4ForCausalLM", **_LLAMA4_TEXT | settings)


LLAMA4_CASES: dict[str, FamilyCase] = {
    "llama4_scout": FamilyCase(
        "llama4",
        "experts in all layers, which read inputs that are weighted; no RoPE in every fourth layer, norms behind RoPE",
        nested(
            "llama4",
            "Llama4ForConditionalGeneration",
            _llama4_text(interleave_moe_layer_step=1, num_local_experts=4, use_qk_norm=True, rope_scaling=_LLAMA3),
            vision_config=_LLAMA4_VISION,
        ),
    ),
    "llama4_maverick": FamilyCase(
        "llama4",
        "128 experts in every second layer, no norms of heads",
        _llama4_text(
            interleave_moe_layer_step=2,
            num_local_experts=128,
            use_qk_norm=False,
            intermediate_size=16,
        ),
    ),
}

CHUNK = 64
"""The tokens of a chunk in `CHUNKED_CASES`. In files of Llama 4 they are always 8192, more than a test has."""

CHUNKED_CASES: dict[str, FamilyCase] = {
    "llama4_chunks": FamilyCase(
        "llama4",
        "prompts of several chunks, in which queries without RoPE are scaled by position",
        _llama4_text(
            attention_chunk_size=CHUNK,
            floor_scale=CHUNK,
            interleave_moe_layer_step=2,
            num_local_experts=4,
            use_qk_norm=True,
        ),
    ),
}
"""Cases that edgellm converts and computes only with another `edgellm.arch.architectures.llama4.CHUNK`."""
