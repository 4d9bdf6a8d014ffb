"""From Hugging Face checkpoints to GGUF files."""
