"""Phi, Granite, OLMo, Cohere, GLM and EXAONE."""

from typing import Any

from support.families.case import FamilyCase, decoder, pattern


def longrope(n: int) -> dict[str, Any]:
    """Factors for `n` pairs of dimensions."""
    short, long = ([round(start + step * i, 3) for i in range(n)] for start, step in ((1.0, 0.07), (1.2, 0.9)))
    return {"type": "longrope", "short_factor": short, "long_factor": long}


LONG_MAGNITUDES = {"short_mscale": 1.25, "long_mscale": 1.25}
"""Factors of cosine and sine of Phi-3.5-MoE, beside those of `longrope`."""


def _phi3(**settings: Any) -> dict[str, Any]:
    defaults = {"rope_scaling": None, "sliding_window": None, "original_max_position_embeddings": 1024}
    return decoder("phi3", "Phi3ForCausalLM", **defaults | settings)


_MULTIPLIERS = {
    "embedding_multiplier": 0.5,
    "logits_scaling": 4.0,
    "residual_multiplier": 0.35,
    "attention_multiplier": 0.15,
}
_ONES = {"embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 0.25}
_YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
_EXAONE_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}

PHI_CASES: dict[str, FamilyCase] = {
    "phi3_mini": FamilyCase(
        "phi3", "fused q, k, v and gate, up; a window below a page on all layers", _phi3(sliding_window=40)
    ),
    "phi3_medium": FamilyCase("phi3", "a window of more than a page on all layers", _phi3(sliding_window=100)),
    "phi3_5_short": FamilyCase(
        "phi3",
        "LongRoPE within the original context",
        _phi3(rope_scaling=longrope(8), max_position_embeddings=2048, sliding_window=2047),
    ),
    "phi3_5_long": FamilyCase(
        "phi3",
        "LongRoPE beyond the original context",
        _phi3(rope_scaling=longrope(8), max_position_embeddings=2048, original_max_position_embeddings=128),
    ),
    "phi4": FamilyCase("phi3", "no scaling, another base", _phi3(rope_theta=250000.0)),
    "phi4_mini": FamilyCase(
        "phi3",
        "RoPE of three quarters of a head, LongRoPE beyond the original context, tied",
        _phi3(
            rope_scaling=longrope(6),
            partial_rotary_factor=0.75,
            max_position_embeddings=2048,
            original_max_position_embeddings=128,
            tie_word_embeddings=True,
        ),
    ),
    "granite": FamilyCase(
        "granite",
        "multipliers of embeddings, residuals, attention and logits, tied",
        decoder("granite", "GraniteForCausalLM", **_MULTIPLIERS, tie_word_embeddings=True),
    ),
    "granite_plain": FamilyCase(
        "granite",
        "multipliers of 1, biases of all products",
        decoder("granite", "GraniteForCausalLM", **_ONES, attention_bias=True, mlp_bias=True),
    ),
    "olmo2": FamilyCase(
        "olmo2",
        "norms after attention and feed-forward, q and k norms over all heads",
        decoder("olmo2", "Olmo2ForCausalLM", rms_norm_eps=1e-6, rope_theta=500000.0),
    ),
    "olmo3": FamilyCase(
        "olmo2",
        "a window below a page on three layers of four, YaRN on full layers",
        decoder(
            "olmo3",
            "Olmo3ForCausalLM",
            num_hidden_layers=5,
            sliding_window=40,
            layer_types=pattern("local", "local", "local", "full", layers=5),
            rope_scaling=_YARN | {"beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.2079441541679836},
            rms_norm_eps=1e-6,
            rope_theta=500000.0,
        ),
    ),
    "cohere2": FamilyCase(
        "cohere2",
        "attention and feed-forward in parallel, LayerNorm without bias, no RoPE on full layers, scaled logits, tied",
        decoder(
            "cohere2",
            "Cohere2ForCausalLM",
            num_hidden_layers=5,
            head_dim=16,
            sliding_window=40,
            sliding_window_pattern=4,
            order_of_interleaved_layers="local_attn_first",
            layer_norm_eps=1e-5,
            logit_scale=0.25,
            rotary_pct=1.0,
            use_gated_activation=True,
            use_parallel_block=True,
            use_parallel_embedding=False,
            use_qk_norm=False,
            position_embedding_type="rope_gptj",
            tie_word_embeddings=True,
        ),
    ),
    "glm4": FamilyCase(
        "glm4",
        "RoPE of neighbouring pairs over half a head, four norms, fused gate and up",
        decoder("glm4", "Glm4ForCausalLM", head_dim=16, partial_rotary_factor=0.5, attention_bias=False),
    ),
    "glm4_biases": FamilyCase(
        "glm4",
        "biases of q, k and v",
        decoder("glm4", "Glm4ForCausalLM", head_dim=16, partial_rotary_factor=0.5, attention_bias=True),
    ),
    "exaone4_1b": FamilyCase(
        "exaone4",
        "norms after attention and feed-forward, q and k norms, no windows, Llama 3's RoPE scaling, tied",
        decoder(
            "exaone4",
            "Exaone4ForCausalLM",
            sliding_window=None,
            sliding_window_pattern=None,
            layer_types=pattern("full", layers=3),
            rope_scaling=_EXAONE_LLAMA3,
            rope_theta=1000000.0,
            tie_word_embeddings=True,
        ),
    ),
    "exaone4_32b": FamilyCase(
        "exaone4",
        "a window with RoPE on three layers of four, full layers without RoPE",
        decoder(
            "exaone4",
            "Exaone4ForCausalLM",
            num_hidden_layers=64,
            hidden_size=32,
            intermediate_size=32,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            sliding_window=40,
            sliding_window_pattern="LLLG",
            layer_types=pattern("local", "local", "local", "full", layers=64),
            rope_scaling=_EXAONE_LLAMA3,
            rope_theta=1000000.0,
        ),
    ),
}
