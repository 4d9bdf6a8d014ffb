"""Nemotron-H, and Nemotron 3 with experts: each layer is one block of Mamba-2, attention or a feed-forward."""

from typing import Any

from support.families.case import VOCABULARY, FamilyCase

_NEMOTRON: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "attention_bias": False,
    "bos_token_id": 0,
    "chunk_size": 16,
    "conv_kernel": 4,
    "eos_token_id": 2,
    "head_dim": 32,
    "hidden_size": 64,
    "intermediate_size": 96,
    "layer_norm_epsilon": 1e-5,
    "mamba_head_dim": 16,
    "mamba_hidden_act": "silu",
    "mamba_num_heads": 12,
    "mamba_proj_bias": False,
    "max_position_embeddings": 1024,
    "mlp_bias": False,
    "mlp_hidden_act": "relu2",
    "n_groups": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "ssm_state_size": 24,
    "tie_word_embeddings": False,
    "time_step_limit": [0.0, float("inf")],
    "time_step_min": 1e-9,
    "torch_dtype": "bfloat16",
    "use_bias": False,
    "use_conv_bias": True,
    "vocab_size": VOCABULARY,
}
_EXPERTS: dict[str, Any] = {
    "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 48,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "routed_scaling_factor": 2.5,
    "topk_group": 1,
}

NEMOTRON_CASES: dict[str, FamilyCase] = {
    "nemotron_h": FamilyCase(
        "nemotron_h",
        "three groups of heads, convolutions of three rows without biases, heads of other sizes than usual",
        _NEMOTRON
        | {
            "conv_kernel": 3,
            "hybrid_override_pattern": "M-*-MM",
            "num_hidden_layers": 6,
            "use_conv_bias": False,
        },
    ),
    "nemotron3_nano": FamilyCase(
        "nemotron_h_moe",
        "experts without a gate in the best of four groups, a shared expert, weights that do not add up to 1",
        _NEMOTRON
        | _EXPERTS
        | {"n_group": 4, "topk_group": 2, "norm_topk_prob": False}
        | {"hybrid_override_pattern": "MEM*E", "num_hidden_layers": 5},
    ),
    "nemotron3_super": FamilyCase(
        "nemotron_h_moe",
        "experts that read a latent and a shared one that does not",
        _NEMOTRON
        | _EXPERTS
        | {"moe_latent_size": 32, "num_experts_per_tok": 3}
        | {"layers_block_type": ["mamba", "moe", "mamba", "attention", "moe"]},
    ),
}
