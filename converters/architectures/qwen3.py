"""The Qwen3 architecture without experts: each head of q and k is normed, and has a size of its own."""

from converters.architectures.variant import Variant

VARIANT = Variant(
    architecture="qwen3",
    context_length=32768,
    kv_heads=32,
    window_switch=True,
    head_dim=128,
    head_norms=True,
    optional_biases=(("attention_bias", ("attn_q", "attn_k", "attn_v", "attn_output")),),
    biases_here_alone=True,
)
