"""Hugging Face checkpoints: a folder of safetensors files, config.json and a tokenizer. No content is trusted.

folder.py       which files hold the weights; refuses folders that cannot be converted
files.py        small files, of bounded size; json_values.py, values of JSON objects, checked
shard.py        the header of a safetensors file
checkpoint.py   `Checkpoint`: configuration, tensors and small files together
rows.py         reading rows of a tensor
quantized/      weights that are quantized already, as rows of floats
"""

from converters.checkpoint.checkpoint import Checkpoint
from converters.checkpoint.shard import StoredTensor

__all__ = ["Checkpoint", "StoredTensor"]
