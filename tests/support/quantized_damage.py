"""Checkpoints of one quantized module with a part changed, and the errors of reading them."""

import json
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from converters.checkpoint import Checkpoint
from converters.tensors import ExactRows
from edgellm.errors import ModelFileError
from support.make_checkpoint import Stored, write_safetensors
from support.quantized_weights import QuantizedModule, stored

Change: TypeAlias = Stored | None
"""A part in place of another, or None for none."""


def read(folder: Path, tensors: dict[str, Stored], quantization: Any) -> None:
    """Write a checkpoint of these tensors, open it, and read all rows, as floats and as the blocks that are stored."""
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    checkpoint = Checkpoint.open(folder)
    for name in checkpoint.tensors:
        source = checkpoint.source(name, name)
        assert len(source.rows(0, source.row_count)) == source.row_count
        if isinstance(source.rows, ExactRows):
            for kind in ("Q4_0", "Q8_0"):
                if blocks := source.rows.blocks(kind):
                    blocks(0, source.row_count)


def error_of(folder: Path, tensors: dict[str, Stored], quantization: Any) -> str:
    with pytest.raises(ModelFileError) as caught:
        read(folder, tensors, quantization)
    message = str(caught.value)
    assert message.startswith(str(folder)) and message.isprintable()
    return message


def changed(module: QuantizedModule, changes: dict[str, Change]) -> dict[str, Stored]:
    """The tensors of the module "m", some of its parts replaced, or left out."""
    tensors = {name: tensor for name, tensor in module.tensors.items() if name.removeprefix("m.") not in changes}
    return tensors | {f"m.{part}": change for part, change in changes.items() if change}


def words(*shape: int, value: int = 0) -> Stored:
    return stored(np.full(shape, value, np.int32))


def singles(*shape: int, at: tuple[int, ...] = (), value: float = 1.0) -> Stored:
    numbers = np.ones(shape, np.float32)
    numbers[at] = value
    return stored(numbers)


def groups(**others: int) -> Stored:
    """g_idx of 96 columns; `others` are the groups of some columns."""
    found = (np.arange(96) // 32).astype(np.int32)
    for column, group in others.items():
        found[int(column.removeprefix("at"))] = group
    return stored(found)
