"""Checking that edgellm can open the new file, by the same checks as when it opens it."""

import re
from collections.abc import Sequence
from pathlib import Path

from converters.header import GGUFLayout
from converters.tensors import PlannedTensor
from edgellm.arch import describe
from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile
from edgellm.gguf.header_only import HeaderOnlyFile
from edgellm.text.tokenizer import Tokenizer

_READ_AT_OPEN = ("rope_freqs.weight",)
_ADVICE = re.compile(r"; get another conversion.*")


def is_loadable(file: GGUFFile) -> bool:
    """Whether edgellm can run the model in a file. Other files can be quantized, too, for use with llama.cpp."""
    try:
        describe(file)
        Tokenizer(file)
    except (ModelFileError, UnsupportedModelError):
        return False
    return True


def check_loadable(layout: GGUFLayout, tensors: Sequence[PlannedTensor], target: Path, source: str) -> None:
    """Raise ModelFileError or UnsupportedModelError, naming `source`, if edgellm could not open the new file."""
    known = {t.source.name: t.source.rows(0, t.source.row_count).reshape(-1) for t in tensors if _is_known(t)}
    try:
        with HeaderOnlyFile(layout.header, layout.nbytes, target, known) as file:
            describe(file)
            Tokenizer(file)
    except (ModelFileError, UnsupportedModelError) as error:
        reason = _ADVICE.sub("", str(error).removeprefix(f"{printable(str(target), 400)}: "))
        problem = f"edgellm would not open the GGUF file of it: {reason}; correct config.json, or get another copy"
        raise type(error)(f"{source}: {problem}") from None


def _is_known(tensor: PlannedTensor) -> bool:
    return tensor.source.name in _READ_AT_OPEN and tensor.source.type == tensor.type.name
