"""The tensors of a file, taken by name, each checked for its shape and type."""

from dataclasses import replace

import numpy as np

from edgellm.arch.refuse import refuse
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile, Tensor
from kquants import FLOAT_FORMATS, FORMATS
from kquants.ggml import NAMED_TYPES, GGMLType
from kquants.ik_types import NAMED_IK_TYPES, replacement
from kquants.plain_types import NUMBERS, PLAIN_TYPES, exact_floats

_NUMBERS = (*FLOAT_FORMATS, *NUMBERS)
"""Types of values that become float32."""


class Tensors:
    """The tensors of a file that were not taken yet."""

    def __init__(self, file: GGUFFile) -> None:
        self.file = file
        self._left = dict(file.tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def matrix(self, name: str, rows: int, columns: int) -> Tensor:
        """A weight matrix (rows, columns) of any supported type."""
        return self._take(name, (rows, columns), FORMATS)

    def floats(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Float32 values, such as the weight of a norm; a first dimension of 1 may be absent in the file, or added.

        Other floats and integers become float32, if that holds all of their values.
        """
        found = self.file.tensors.get(name)
        stored = found.shape if found is not None and _without_ones(found.shape) == _without_ones(shape) else shape
        return replace(self._as_float32(self._take(name, stored, _NUMBERS)), shape=shape)

    def matrices(self, name: str, count: int, rows: int, columns: int) -> tuple[Tensor, ...]:
        """The `count` matrices (rows, columns) of a tensor with three dimensions."""
        stacked = self._take(name, (count, rows, columns), FORMATS)
        return tuple(stacked.matrix(i) for i in range(count))

    def stack(self, name: str, count: int, rows: int, columns: int) -> Tensor:
        """A stack of `count` matrices (rows, columns)."""
        return self._take(name, (count, rows, columns), FORMATS)

    def factors(self, stem: str, count: int) -> Tensor | None:
        """The factors of the matrices of `stem`.weight: float32 (count), or None where the file has none.

        Files whose matrices are NVFP4 have them beside these. The scale of inputs that such a file may have besides is
        for activations of 4 bits, which nothing here computes with.
        """
        self.drop(f"{stem}.input_scale")
        name = f"{stem}.scale"
        return self.floats(name, (count,)) if name in self else None

    def drop(self, *names: str) -> None:
        """Take tensors that compute nothing, where the file has them."""
        for name in names:
            self._left.pop(name, None)

    def drop_prefix(self, *prefixes: str) -> int:
        """Take all tensors whose names begin with one of the prefixes, without using them; returns their number."""
        names = [name for name in self._left if name.startswith(prefixes)]
        self.drop(*names)
        return len(names)

    def _take(self, name: str, shape: tuple[int, ...], types: tuple[str, ...]) -> Tensor:
        tensor = self._left.pop(name, None)
        if tensor is None:
            self.file.fail(f"has no tensor {name}; get another conversion of the model")
        if tensor.shape != shape:
            self.file.fail(
                f"tensor {name} has shape {list(tensor.shape)}, but the metadata asks for {list(shape)}; "
                "get another conversion of the model"
            )
        if tensor.type.name not in types:
            refuse(self.file, f"tensor {name} has type {tensor.type.name}{_advice(tensor.type, types)}")
        return tensor

    def _as_float32(self, tensor: Tensor) -> Tensor:
        if tensor.type.name == "F32":
            return tensor
        floats = exact_floats(tensor.type, tensor.data)
        if floats is None:
            problem = f"tensor {tensor.name} has {tensor.type.name} values that float32 does not hold"
            refuse(self.file, f"{problem}; `edgellm quantize --type F16` writes a file with the nearest ones")
        return replace(tensor, type=NAMED_TYPES["F32"], data=floats.view(np.uint8))

    def finish(self, *ignored: str) -> None:
        """Refuse tensors that were not taken, but for `ignored`: without them the logits would be wrong."""
        left = sorted(set(self._left) - set(ignored))
        if left:
            first, more = printable(left[0]), len(left) - 1
            which = f"tensors {first} and {more} more have" if more else f"tensor {first} has"
            refuse(self.file, f"{which} no place in architecture {self.file.architecture} as edgellm knows it")


def _advice(kind: GGMLType, types: tuple[str, ...]) -> str:
    """What to do about a tensor of another type than `types`."""
    if kind.name in NAMED_IK_TYPES:
        return f", which only ik_llama.cpp computes; take a file of the same model in {replacement(kind)}"
    if kind.name in PLAIN_TYPES:
        return "; `edgellm quantize` writes a file of types that are computed with"
    return f"; supported there: {', '.join(types)}"


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its first dimensions that are 1, which GGUF may leave out."""
    return shape[next((i for i, each in enumerate(shape) if each != 1), len(shape)) :]
