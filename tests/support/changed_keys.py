"""Model files with another value for a key, and why they are refused."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from edgellm import EdgeLLMError
from edgellm.arch import describe
from edgellm.gguf import GGUFFile
from support import gguf_bytes as raw
from support.gguf_parts import GGUFParts

Value = int | list[int] | list[bool] | None


def with_key(source: Path, path: Path, key: str, value: Value, without: Collection[str] = ()) -> Path:
    """Write `source` to `path` with `value` for a key, which may be new; None leaves it out. Returns `path`.

    Tensors whose names contain one of the texts `without` are left out.
    """
    parts = GGUFParts.read(source)
    pairs = {name: pair for name, pair in parts.pairs.items() if name != key}
    if isinstance(value, list):
        kind = raw.BOOL if isinstance(value[0], bool) else raw.I32
        pairs[key] = raw.pair(key, raw.ARRAY, raw.array(kind, [raw.number(kind, each) for each in value]))
    elif value is not None:
        pairs[key] = raw.u32_pair(key, value)
    tensors = {name: tensor for name, tensor in parts.tensors.items() if not any(text in name for text in without)}
    path.write_bytes(replace(parts, pairs=pairs, tensors=tensors).build())
    return path


def refusal(path: Path) -> str:
    """The one line that says why a file is refused."""
    with GGUFFile.open(path) as file, pytest.raises(EdgeLLMError) as error:
        describe(file)
    assert "\n" not in str(error.value)
    return str(error.value)
