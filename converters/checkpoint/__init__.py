"""Hugging Face checkpoints: a folder of safetensors files, config.json and a tokenizer. No content is trusted.

folder.py       which files hold the weights; refuses folders that cannot be converted
files.py        small files, of bounded size
shard.py        the header of a safetensors file
checkpoint.py   `Checkpoint`: configuration, tensors and small files together
rows.py         reading rows of a tensor
quantized.py    refuses quantized weights, but for FP8
fp8.py          decodes FP8; scales.py finds the scales
"""

from converters.checkpoint.checkpoint import Checkpoint
from converters.checkpoint.shard import StoredTensor

__all__ = ["Checkpoint", "StoredTensor"]
