"""Text from a model: sessions, prefill, decoding, speculation, the prefix cache and the figures of each reply."""
