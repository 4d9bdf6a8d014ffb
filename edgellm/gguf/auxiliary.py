"""Auxiliary files: GGUF files that hold no model of their own but something for one, such as a head that drafts.

The keys `general.type` and `general.architecture` tell them apart; the values are those of llama.cpp (llama-arch.cpp,
llama-adapter.cpp, and its tools imatrix and cvector-generator).
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.fmt import shown_path
from edgellm.gguf.reader import GGUF_VERSIONS, HeaderReader

HEAD = "head"
"""The `kind` of a draft head that edgellm computes."""

_TYPE, _ARCHITECTURE = "general.type", "general.architecture"
_READ_BYTES = 1 << 16
"""The first bytes of a file that `auxiliary_kind_at` reads. Converters write the two keys before all large values."""

_BEGINNINGS = tuple(b"GGUF" + version.to_bytes(4, "little") for version in GGUF_VERSIONS)
_TENSOR_COUNT_BYTES = 8


class AuxiliaryKind(NamedTuple):
    """What a file holds: `kind` is a word for programs, `name` words for messages, with an article."""

    kind: str
    name: str
    advice: str

    @property
    def refusal(self) -> str:
        """Why such a file cannot be opened as a model, and what to do: words that follow its path."""
        return f"holds {self.name}, not a model; {self.advice}"

    def refuse(self, path: Path) -> NoReturn:
        """Raise UnsupportedModelError for such a file, which is to be a model."""
        raise UnsupportedModelError(f"{shown_path(path)}: {self.refusal}")


_DRAFTS = "--draft names it beside the model that it drafts for"
_NOT_READ = "edgellm does not use such files; open the model without it"

_BY_TYPE = {
    "imatrix": AuxiliaryKind("imatrix", "an importance matrix", "convert and quantize take it with --imatrix"),
    "adapter": AuxiliaryKind("adapter", "an adapter for a model (LoRA)", "merge it into the model's checkpoint"),
}
_BY_ARCHITECTURE = {
    "eagle3": AuxiliaryKind(HEAD, "an EAGLE-3 head", _DRAFTS),
    "gemma4-assistant": AuxiliaryKind(HEAD, "an assistant of Gemma 4", _DRAFTS),
    "dflash": AuxiliaryKind("other head", "a DFlash head", _NOT_READ),
    "controlvector": AuxiliaryKind("control vector", "a control vector", _NOT_READ),
    "clip": AuxiliaryKind(
        "mmproj", "the part of a model that reads images or sound", "open the file of the model itself"
    ),
}


def auxiliary_kind(metadata: Mapping[str, Any]) -> AuxiliaryKind | None:
    """What a file with this metadata holds, None for a model."""
    return _found(_BY_TYPE, metadata.get(_TYPE)) or _found(_BY_ARCHITECTURE, metadata.get(_ARCHITECTURE))


def auxiliary_kind_at(path: Path) -> AuxiliaryKind | None:
    """What the file at a path holds by its first keys; None for a model, and for a file that cannot be read.

    Values as large as a vocabulary, which takes 0.1 s, are not read. Opening a file tells what is wrong with it.
    """
    try:
        if not path.is_file():  # a FIFO would block
            return None
        with path.open("rb") as file:
            head = file.read(_READ_BYTES)
    except (OSError, ValueError):  # ValueError: a path with a zero byte
        return None
    return auxiliary_kind(_first_keys(HeaderReader(memoryview(head), path)))


def check_model_at(path: Path) -> None:
    """Raise UnsupportedModelError if the file at a path holds no model by its first keys."""
    if kind := auxiliary_kind_at(path):
        kind.refuse(path)


def _found(kinds: Mapping[str, AuxiliaryKind], value: object) -> AuxiliaryKind | None:
    return kinds.get(value) if isinstance(value, str) else None


def _first_keys(reader: HeaderReader) -> dict[str, Any]:
    """The keys up to the architecture, and those of the group `general` behind it; those before any damage.

    None for a file that is not GGUF, or of another version.
    """
    from edgellm.gguf.values import read_value  # imports numpy

    keys: dict[str, Any] = {}
    if not bytes(reader.buffer[: len(_BEGINNINGS[0])]).startswith(_BEGINNINGS):
        return keys
    with suppress(ModelFileError):
        reader.skip(len(_BEGINNINGS[0]) + _TENSOR_COUNT_BYTES)
        for _ in range(reader.u64()):
            name = reader.name()
            if _ARCHITECTURE in keys and not name.startswith("general."):
                break
            keys[name] = read_value(reader, reader.u32())
    return keys
