"""Random checkpoints of the families: every weight is drawn from its name, so that it needs no file."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from support.checkpoint_numbers import Bytes, encode
from support.checkpoint_tokenizers import write_json, write_tokenizer
from support.families.case import FamilyCase
from support.make_checkpoint import Stored, write_safetensors


class DrawnTensor(NamedTuple):
    """A tensor of a checkpoint: its shape, and the mean and standard deviation of its random numbers."""

    shape: tuple[int, ...]
    mean: float
    deviation: float

    def bfloat16(self, name: str) -> Bytes:
        """Its numbers as BF16, which depend on `name` alone."""
        drawn = np.random.default_rng([*name.encode()]).standard_normal(prod(self.shape), np.float32)
        return encode(np.float32(self.mean) + np.float32(self.deviation) * drawn, "BF16")


def write_family_checkpoint(folder: Path, case: FamilyCase, tensors: Mapping[str, DrawnTensor]) -> Path:
    """Write config.json, model.safetensors (BF16) and a tokenizer into `folder`, made if need be. Returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", case.config)
    write_tokenizer(folder, "qwen2")
    stored = {name: Stored("BF16", tensor.shape, tensor.bfloat16(name)) for name, tensor in tensors.items()}
    write_safetensors(folder / "model.safetensors", stored)
    return folder
