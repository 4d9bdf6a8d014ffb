"""The tensors of a file, taken by name, each checked for its shape and type."""

from dataclasses import replace

from edgellm.arch.refuse import refuse
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile, Tensor
from kquants import FORMATS


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
        """Float32 values, such as the weight of a norm."""
        return self._take(name, shape, ("F32",))

    def matrices(self, name: str, count: int, rows: int, columns: int) -> tuple[Tensor, ...]:
        """The `count` matrices (rows, columns) of a tensor with three dimensions."""
        stacked = self._take(name, (count, rows, columns), FORMATS)
        return tuple(stacked.matrix(i) for i in range(count))

    def stack(self, name: str, count: int, rows: int, columns: int) -> Tensor:
        """A stack of `count` matrices (rows, columns)."""
        return self._take(name, (count, rows, columns), FORMATS)

    def drop(self, *names: str) -> None:
        """Take tensors that compute nothing, where the file has them."""
        for name in names:
            self._left.pop(name, None)

    def drop_prefix(self, *prefixes: str) -> None:
        """Take all tensors whose names begin with one of the prefixes, without using them."""
        self.drop(*(name for name in self._left if name.startswith(prefixes)))

    def _take(self, name: str, shape: tuple[int, ...], types: tuple[str, ...]) -> Tensor:
        tensor = self._left.pop(name, None)
        if tensor is None:
            self.file.fail(f"has no tensor {name}; get another conversion of the model")
        tensor = _with_shape(tensor, shape)
        if tensor.shape != shape:
            self.file.fail(
                f"tensor {name} has shape {list(tensor.shape)}, but the metadata asks for {list(shape)}; "
                "get another conversion of the model"
            )
        if tensor.type.name not in types:
            refuse(self.file, f"tensor {name} has type {tensor.type.name}; supported there: {', '.join(types)}")
        return tensor

    def finish(self, *ignored: str) -> None:
        """Refuse tensors that were not taken, but for `ignored`: without them the logits would be wrong."""
        left = sorted(set(self._left) - set(ignored))
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            place = f"architecture {self.file.architecture} as edgellm knows it"
            refuse(self.file, f"tensor {printable(left[0])}{more} has no place in {place}")


def _with_shape(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor with `shape` if it differs in leading dimensions of 1 alone: ggml drops them when it writes a file."""
    same = _without_leading_ones(tensor.shape) == _without_leading_ones(shape)
    return replace(tensor, shape=shape) if same else tensor


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    first = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]
