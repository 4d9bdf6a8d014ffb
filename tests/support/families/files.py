"""The cases as GGUF files, made by edgellm's converter."""

import warnings
from pathlib import Path

from converters import convert
from edgellm.errors import EdgeLLMWarning
from support.families import CASES
from support.families.checkpoint import write_family_checkpoint
from support.families.references import load_reference
from support.gguf_parts import GGUFParts


def write_family_file(folder: Path, name: str) -> Path:
    """Convert the checkpoint of the case `name` in `folder`; the result has F32 weights. Returns its path.

    The checkpoint's weights are BF16, and no mix has F32: the converter keeps them, and they are widened here.
    """
    checkpoint = write_family_checkpoint(folder / name, CASES[name], load_reference(name).tensors)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*left out", EdgeLLMWarning)  # the tensors of vision towers
        convert(checkpoint, checkpoint / "bf16.gguf", "BF16", threads=1)
    path = folder / f"{name}.gguf"
    path.write_bytes(GGUFParts.read(checkpoint / "bf16.gguf").as_f32().build())
    return path
