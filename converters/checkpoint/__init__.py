"""Hugging Face checkpoints: a folder of safetensors files, config.json and a tokenizer, trusted in nothing."""

from converters.checkpoint.checkpoint import Checkpoint
from converters.checkpoint.shard import StoredTensor

__all__ = ["Checkpoint", "StoredTensor"]
