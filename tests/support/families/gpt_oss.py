"""gpt-oss."""

from support.families.case import FamilyCase, decoder, pattern

_CONFIG = decoder(
    "gpt_oss",
    "GptOssForCausalLM",
    attention_bias=True,
    experts_per_token=3,
    head_dim=32,
    initial_context_length=128,
    intermediate_size=96,
    layer_types=pattern("local", "full", layers=4),
    num_experts_per_tok=3,
    num_hidden_layers=4,
    num_local_experts=8,
    output_router_logits=False,
    rope_scaling={
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 8.0,
        "original_max_position_embeddings": 128,
        "rope_type": "yarn",
        "truncate": False,
    },
    rope_theta=150000,
    router_aux_loss_coef=0.9,
    sliding_window=24,
    swiglu_limit=7.0,
)

GPT_OSS_CASES: dict[str, FamilyCase] = {
    "gpt_oss": FamilyCase(
        "gpt-oss",
        "biases everywhere, sinks, a window in every second layer, YaRN without truncate, clamped SwiGLU, interleaved "
        "and transposed matrices of gate and up",
        _CONFIG,
    ),
}
