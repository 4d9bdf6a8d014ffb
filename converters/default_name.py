"""The default name of a new GGUF file: its model, then its type, as for files on Hugging Face."""

import re
from pathlib import Path

from edgellm.gguf.filetypes import FILE_TYPES
from kquants.ggml import NAMED_TYPES

_PART = re.compile(r"-[0-9]{5}-of-[0-9]{5}$")
_TYPES = "|".join(sorted({*FILE_TYPES.values(), *NAMED_TYPES, "FP16", "FP32"}, key=len, reverse=True))
_TYPE = re.compile(f"[-_.]({_TYPES})$", re.IGNORECASE)


def file_name(model: str, mix: str) -> str:
    """`MODEL-TYPE.gguf`; a type at the end of `model`, which may be empty, is replaced."""
    return f"{_TYPE.sub('', _PART.sub('', model)) or 'model'}-{mix}.gguf"


def model_name_of_file(path: Path, asked: str) -> str:
    """The name of the model in a GGUF file: the file's stem, or the name it was asked by if the suffix differs."""
    return path.stem if path.suffix.lower() == ".gguf" else asked.rpartition("/")[2].replace(":", "-")
