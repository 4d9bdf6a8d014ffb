"""The Llama architecture: Llama 1-3, TinyLlama, SmolLM2 (which has no output matrix), …"""

from converters.architectures.variant import Variant

VARIANT = Variant(
    architecture="llama",
    context_length=2048,
    kv_heads=None,
    neighbours=True,
    optional_biases=(
        ("attention_bias", ("attn_q", "attn_k", "attn_v", "attn_output")),
        ("mlp_bias", ("ffn_gate", "ffn_up", "ffn_down")),
    ),
)
