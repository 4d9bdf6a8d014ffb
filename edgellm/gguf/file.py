"""A GGUF model: all its parts, its metadata with typed access, its tensors."""

import os
import re
from collections.abc import Mapping
from copy import copy
from math import isfinite
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NoReturn, Self, TypeAlias, TypeVar

import numpy as np

from edgellm.errors import ModelFileError
from edgellm.fmt import printable, shown_path
from edgellm.gguf.auxiliary import auxiliary_kind
from edgellm.gguf.part import GGUFPart, close_part
from edgellm.gguf.split import open_parts
from edgellm.gguf.tensors import Tensor
from edgellm.gguf.values import StringArray

T = TypeVar("T")
V = TypeVar("V")
Array: TypeAlias = np.ndarray[Any, Any]
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REQUIRED: Any = object()
_DTYPE_KINDS = {int: "iu", float: "f", bool: "b"}


class GGUFFile:
    """An open GGUF model. Make it with `GGUFFile.open(path)`; use it as a context manager or call `close`.

    The getters raise ModelFileError, which names file and key, for a value of another type, and for a missing key
    unless they are given a default.
    """

    def __init__(self, parts: list[GGUFPart]) -> None:
        first = parts[0]
        self._parts = parts
        self.path: Path = first.path
        self.paths: tuple[Path, ...] = tuple(part.path for part in parts)
        self.version: int = first.version
        self.nbytes: int = sum(len(part.map) for part in parts)
        self.metadata: Mapping[str, Any] = MappingProxyType(first.metadata)
        self.tensors: dict[str, Tensor] = {n: t for part in parts for n, t in part.tensors.items()}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Map a file. For a split model, `path` may be any part, and all parts are mapped.

        Raises ModelFileError for a file that is missing, unreadable, damaged or no GGUF file.
        """
        return cls(open_parts(Path(path)))

    def with_metadata(self, values: Mapping[str, Any]) -> "GGUFFile":
        """The same file with these values in its metadata. It shares the map of this file, which alone is closed."""
        if not values:
            return self
        changed = copy(self)
        changed.metadata = MappingProxyType({**self.metadata, **values})
        return changed

    def with_tensor(self, tensor: Tensor) -> "GGUFFile":
        """The same file with another tensor of that name. It shares the map of this file, which alone is closed."""
        changed = copy(self)
        changed.tensors = {**self.tensors, tensor.name: tensor}
        return changed

    def check(self) -> None:
        """Raise ModelFileError if the file was cut short since it was opened, or its disk failed.

        In that case, weights that were read before may be zeros.
        """
        for part in self._parts:
            part.map.check()

    def close(self) -> None:
        """Drop the tensors and metadata, and unmap each part that has no views any more."""
        self.tensors.clear()
        for part in self._parts:
            close_part(part)

    def __repr__(self) -> str:
        return f"<GGUFFile {shown_path(self.path)}, tensors: {len(self.tensors)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    @property
    def architecture(self) -> str:
        """`general.architecture`.

        Raises ModelFileError if it is missing or not a plain word, UnsupportedModelError for an importance matrix,
        which has none.
        """
        if "general.architecture" not in self.metadata and (kind := auxiliary_kind(self.metadata)):
            kind.refuse(self.path)
        name = self.get_str("general.architecture")
        if not _PLAIN.fullmatch(name):
            self._wrong("general.architecture", "a plain word")
        return name

    def fail(self, problem: str) -> NoReturn:
        """Raise ModelFileError for `problem`, with the path of the file before it."""
        raise ModelFileError(f"{shown_path(self.path)}: {problem}")

    def get_int(self, key: str, default: T = _REQUIRED) -> int | T:
        """An integer of any width."""
        return self._get(key, (int,), "an integer", default)

    def get_float(self, key: str, default: T = _REQUIRED) -> float | T:
        """A finite float or an integer."""
        value = self._get(key, (float, int), "a number", default)
        if key in self.metadata and not isfinite(self.metadata[key]):
            self._wrong(key, "finite")
        return value

    def get_bool(self, key: str, default: T = _REQUIRED) -> bool | T:
        """True or false."""
        return self._get(key, (bool,), "true or false", default)

    def get_str(self, key: str, default: T = _REQUIRED) -> str | T:
        """Text. Bytes that are not UTF-8 become U+FFFD."""
        return self._get(key, (str,), "text", default)

    def get_strings(self, key: str, default: T = _REQUIRED) -> StringArray | T:
        """An array of strings, decoded on access."""
        return self._get(key, (StringArray,), "an array of text", default)

    def hint(self, key: str, kind: type[V]) -> V | None:
        """An optional value: None if it is absent or of another type than `kind`."""
        value = self.metadata.get(key)
        return value if type(value) is kind else None

    def get_array(self, key: str, kind: type[float] | type[bool], default: T = _REQUIRED) -> Array | T:
        """A read-only 1-D view of the map: int, float or bool (`kind`) of any width. It may be unaligned."""
        wanted = f"an array of {kind.__name__}"
        value = self._get(key, (np.ndarray,), wanted, default)
        if isinstance(value, np.ndarray) and value.dtype.kind not in _DTYPE_KINDS[kind]:
            self._wrong(key, wanted)
        return value

    def is_array(self, key: str) -> bool:
        """Whether a key is there and has an array of numbers or truth values."""
        return isinstance(self.metadata.get(key), np.ndarray)

    def get_integers(self, key: str, count: int) -> tuple[int, ...]:
        """`count` integers: those of an array of integers or truth values, or the one that the key has for all."""
        if not self.is_array(key):
            return (self.get_int(key),) * count
        values = self.metadata[key]
        if values.dtype.kind not in "iub" or len(values) != count:
            self._wrong(key, f"an array of {count} integers")
        return tuple(int(value) for value in values)

    def get_numbers(self, key: str, count: int) -> tuple[float, ...]:
        """`count` finite numbers: those of an array, or the one that the key has for all."""
        if not self.is_array(key):
            return (self.get_float(key),) * count
        values = self.metadata[key]
        if values.dtype.kind not in "iuf" or len(values) != count or not np.isfinite(values).all():
            self._wrong(key, f"an array of {count} finite numbers")
        return tuple(float(value) for value in values)

    def _get(self, key: str, kinds: tuple[type[V], ...], wanted: str, default: T) -> V | T:
        if key not in self.metadata:
            if default is _REQUIRED:
                self.fail(f"has no key {printable(key)}; get another conversion of the model")
            return default
        if type(self.metadata[key]) not in kinds:
            self._wrong(key, wanted)
        value: V = self.metadata[key]
        return value

    def _wrong(self, key: str, wanted: str) -> NoReturn:
        self.fail(f"key {printable(key)} must be {wanted}; get another conversion of the model")
