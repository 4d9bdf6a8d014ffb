"""KV pages, RoPE on the way there, and attention over them."""
