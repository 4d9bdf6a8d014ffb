"""The Qwen2 architecture: Qwen2, Qwen2.5, and what was distilled into them. Biases on q, k and v."""

from converters.architectures.variant import Variant

VARIANT = Variant(
    architecture="qwen2",
    context_length=32768,
    kv_heads=32,
    window_switch=True,
    biases=("attn_q", "attn_k", "attn_v"),
    head_size=False,
)
