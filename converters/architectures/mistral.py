"""Mistral's models, which GGUF calls llama: the first ones see a sliding window of tokens."""

from converters.architectures.variant import Variant

VARIANT = Variant(architecture="llama", context_length=131072, kv_heads=8, neighbours=True, window=True)
