"""Granite 4, Mamba-2 and Falcon-H1: layers of Mamba-2, alone, in turn with attention, or beside it; Mamba-1 alone."""

from typing import Any

from support.families.case import VOCABULARY, FamilyCase, decoder

_MAMBA: dict[str, Any] = {
    "mamba_chunk_size": 16,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 32,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 8,
    "mamba_proj_bias": False,
}
_GRANITE: dict[str, Any] = {
    **_MAMBA,
    "attention_bias": False,
    "attention_multiplier": 0.0625,
    "embedding_multiplier": 3,
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "logits_scaling": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_local_experts": 8,
    "position_embedding_type": "nope",
    "residual_multiplier": 0.22,
    "shared_intermediate_size": 80,
}
_DENSE: dict[str, Any] = {"num_experts_per_tok": 0, "num_local_experts": 0}
# Multipliers are powers of two, so that weights in BF16 keep their digits.
_FALCON: dict[str, Any] = {
    **_MAMBA,
    "attention_bias": False,
    "attention_in_multiplier": 2.0,
    "attention_out_multiplier": 0.5,
    "embedding_multiplier": 2.0,
    "head_dim": 16,
    "key_multiplier": 0.25,
    "lm_head_multiplier": 0.5,
    "mamba_d_ssm": 96,
    "mamba_n_groups": 2,
    "mamba_n_heads": 6,
    "mamba_norm_before_gate": False,
    "mamba_rms_norm": True,
    "mlp_bias": False,
    "mlp_multipliers": [2.0, 0.5],
    "projectors_bias": False,
    "rope_theta": 100000000000.0,
    "ssm_in_multiplier": 2.0,
    "ssm_multipliers": [0.5, 2.0, 0.5, 1.0, 0.25],
    "ssm_out_multiplier": 0.5,
    "tie_word_embeddings": True,
}
_MAMBA2: dict[str, Any] = {
    "architectures": ["Mamba2ForCausalLM"],
    "model_type": "mamba2",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "bos_token_id": 0,
    "chunk_size": 16,
    "conv_kernel": 4,
    "eos_token_id": 0,
    "expand": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "layer_norm_epsilon": 1e-5,
    "n_groups": 1,
    "num_heads": 8,
    "pad_token_id": 0,
    "residual_in_fp32": True,
    "rms_norm": True,
    "state_size": 32,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_bias": False,
    "use_conv_bias": True,
}


_MAMBA1: dict[str, Any] = {
    "architectures": ["MambaForCausalLM"],
    "model_type": "mamba",
    "vocab_size": VOCABULARY,
    "hidden_size": 72,
    "intermediate_size": 144,
    "num_hidden_layers": 3,
    "bos_token_id": 0,
    "conv_kernel": 4,
    "eos_token_id": 0,
    "expand": 2,
    "hidden_act": "silu",
    "layer_norm_epsilon": 1e-5,
    "pad_token_id": 0,
    "residual_in_fp32": True,
    "state_size": 16,
    "tie_word_embeddings": True,
    "time_step_rank": 5,
    "torch_dtype": "bfloat16",
    "use_bias": False,
    "use_conv_bias": True,
}
_FALCON_MAMBA: dict[str, Any] = _MAMBA1 | {
    "architectures": ["FalconMambaForCausalLM"],
    "model_type": "falcon_mamba",
    "hidden_size": 64,
    "intermediate_size": 128,
    "mixer_rms_eps": 1e-2,
    "state_size": 32,
    "tie_word_embeddings": False,
    "time_step_rank": 16,
}


def _granite(**settings: Any) -> dict[str, Any]:
    return decoder("granitemoehybrid", "GraniteMoeHybridForCausalLM", **(_GRANITE | settings))


MAMBA_CASES: dict[str, FamilyCase] = {
    "granite4_h_tiny": FamilyCase("granitehybrid", "Mamba-2 and attention without RoPE, experts", _granite()),
    "granite4_h_micro": FamilyCase(
        "granitehybrid",
        "dense, biases of attention, a convolution of two tokens, tied",
        _granite(**_DENSE, attention_bias=True, logits_scaling=1.5, mamba_d_conv=2, tie_word_embeddings=True),
    ),
    "granite4_micro": FamilyCase(
        "granite",
        "all layers are attention, with RoPE",
        _granite(**_DENSE, layer_types=["attention"] * 4, position_embedding_type="rope"),
    ),
    "granite4_attention": FamilyCase(
        "granitemoe",
        "all layers are attention without RoPE, experts",
        _granite(layer_types=["attention"] * 4),
    ),
    "mamba1": FamilyCase("mamba", "a width that fills no block of channels, tied", _MAMBA1),
    "falcon_mamba": FamilyCase("mamba", "norms of the step, B and C with an epsilon of their own", _FALCON_MAMBA),
    "mamba2": FamilyCase("mamba2", "one group of B and C, tied", _MAMBA2),
    "falcon_h1": FamilyCase(
        "falcon-h1",
        "a norm of Mamba-2, Mamba-2 of its own width, multipliers that tied embeddings do not share",
        decoder("falcon_h1", "FalconH1ForCausalLM", **_FALCON),
    ),
}
