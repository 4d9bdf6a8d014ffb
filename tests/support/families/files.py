"""The cases as GGUF files, made by edgellm's converter."""

import warnings
from pathlib import Path

from converters import convert
from edgellm.errors import EdgeLLMWarning
from support.families import CASES
from support.families.checkpoint import write_family_checkpoint
from support.families.llama4 import CHUNKED_CASES
from support.families.references import load_reference
from support.families.wide import WIDE_CASES
from support.gguf_parts import GGUFParts


def convert_case(folder: Path, name: str, mix: str) -> Path:
    """Convert the checkpoint of a case, or of a wide one, in `folder` with a quantization mix; the file's path."""
    case = (CASES | WIDE_CASES | CHUNKED_CASES)[name]
    # llama.cpp takes the folder's name for the model's, and treats some names in a way of its own.
    checkpoint = write_family_checkpoint(folder / "model", case, load_reference(name).tensors)
    path = folder / f"{name}-{mix}.gguf"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*left out", EdgeLLMWarning)  # the tensors of vision towers
        convert(checkpoint, path, mix, threads=1)
    return path


def write_family_file(folder: Path, name: str) -> Path:
    """Convert the checkpoint of the case `name` in `folder`; the result has F32 weights. Returns its path.

    The checkpoint's weights are BF16, and no mix has F32: the converter keeps them, and they are widened here.
    """
    return widened(convert_case(folder, name, "BF16"))


def widened(path: Path) -> Path:
    """Write a file with the weights of another as F32, beside it. Returns its path."""
    wide = path.with_suffix(".f32.gguf")
    wide.write_bytes(GGUFParts.read(path).as_f32().build())
    return wide
