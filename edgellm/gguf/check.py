"""The checks of `edgellm verify`, beyond those that opening a file makes.

Only rules that hold for every architecture are checked here: an architecture checks its own shapes at open.
"""

import re
from collections.abc import Iterator

import numpy as np

from edgellm.errors import ModelFileError
from edgellm.fmt import printable
from edgellm.gguf import sigbus
from edgellm.gguf.file import GGUFFile
from edgellm.gguf.nonfinite import find_nonfinite
from edgellm.gguf.tensors import Tensor
from edgellm.gguf.values import NO_TOKEN, StringArray

_PER_TOKEN = ("tokenizer.ggml.token_type", "tokenizer.ggml.scores")
_BLOCK = re.compile(r"blk\.([0-9]{1,9})\.")


def find_problems(file: GGUFFile) -> Iterator[str]:
    """Yield each problem of an open file as a line of text. Weights are read in chunks of 1 MiB.

    Raises ModelFileError if the file is cut short meanwhile.
    """
    sigbus.install()
    yield from _architecture(file)
    yield from _metadata_numbers(file)
    yield from _tokenizer(file)
    yield from _blocks(file)
    yield from _embedding(file)
    for tensor in file.tensors.values():
        yield from _weights(tensor)
        file.check()


def _architecture(file: GGUFFile) -> Iterator[str]:
    try:
        _ = file.architecture
    except ModelFileError as error:
        yield str(error)


def _metadata_numbers(file: GGUFFile) -> Iterator[str]:
    for key, value in file.metadata.items():
        is_float = isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
        if is_float and np.isnan(value).any():
            yield f"key {printable(key)} holds NaN"


def _tokenizer(file: GGUFFile) -> Iterator[str]:
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if tokens is None:
        return
    if not isinstance(tokens, StringArray):
        yield "key tokenizer.ggml.tokens is not an array of text"
        return
    for key in _PER_TOKEN:
        values = file.metadata.get(key)
        if values is not None and (not isinstance(values, np.ndarray) or len(values) != len(tokens)):
            yield f"key {key} is not an array of {len(tokens)} numbers, one for each token"
    for key, value in special_ids(file):
        if type(value) is not int or not (0 <= value < len(tokens) or value in NO_TOKEN):
            yield f"key {printable(key)} is {printable(str(value))}, not one of the {len(tokens)} tokens"


def special_ids(file: GGUFFile) -> Iterator[tuple[str, object]]:
    """The metadata keys that name a token by its id, such as `tokenizer.ggml.bos_token_id`, with their values."""
    for key, value in file.metadata.items():
        if key.startswith("tokenizer.ggml.") and key.endswith("_token_id"):
            yield key, value


def _blocks(file: GGUFFile) -> Iterator[str]:
    """Check that the blocks that have tensors are 0 to block_count - 1."""
    count = _own_int(file, "block_count")
    found = {int(name[1]) for name in map(_BLOCK.match, file.tensors) if name}
    if count is None or not found:
        return
    if max(found) >= count:
        yield f"there are tensors of block {max(found)}, and key block_count is {count}"
    elif len(found) < count:
        missing = next(i for i in range(len(found) + 1) if i not in found)
        yield f"there are no tensors of block {missing}, and key block_count is {count}"


def _embedding(file: GGUFFile) -> Iterator[str]:
    """Check that the token embedding has a row for each token, and as many columns as the model is wide."""
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        return
    if len(embedding.shape) != 2:
        yield f"tensor token_embd.weight has {len(embedding.shape)} dimensions, not 2"
        return
    rows, columns = embedding.shape
    tokens, width = file.metadata.get("tokenizer.ggml.tokens"), _own_int(file, "embedding_length")
    if isinstance(tokens, StringArray) and len(tokens) not in (0, rows):
        yield f"tensor token_embd.weight has {rows} rows for {len(tokens)} tokens"
    if width not in (None, columns):
        yield f"tensor token_embd.weight has {columns} columns for an embedding_length of {width}"


def _own_int(file: GGUFFile, key: str) -> int | None:
    value = file.metadata.get(f"{file.metadata.get('general.architecture')}.{key}")
    return value if type(value) is int else None


def _weights(tensor: Tensor) -> Iterator[str]:
    found = find_nonfinite(tensor)
    if found:
        total = tensor.size // tensor.type.block
        share = f"{found.bad} of {total}"
        what = f"the scales of {share} blocks" if tensor.type.block > 1 else f"{share} weights"
        where = f"row {found.row} ({printable(tensor.path.name)}, byte {found.byte})"
        yield f"tensor {printable(tensor.name)} ({tensor.type.name}) has NaN or Inf in {what}, first in {where}"
