"""Finding the stored tensors that belong to one weight, and checking them."""

from collections.abc import Collection, Iterator

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.small import FLOATS
from converters.checkpoint.quantized.weight import Tensors
from converters.checkpoint.shard import StoredTensor
from edgellm.fmt import printable


def modules_with(tensors: Tensors, part: str) -> Iterator[str]:
    """The names of modules that have a tensor of this name, such as "qweight"."""
    end = f".{part}"
    return (name.removesuffix(end) for name in tensors if name.endswith(end))


def part_of(
    tensors: Tensors, owner: str, part: str, dtypes: Collection[str], shape: tuple[int | None, ...]
) -> StoredTensor:
    """The tensor "owner.part", which must have one of `dtypes`, and this shape, where None is any number above 0.

    Raises ModelFileError.
    """
    found = tensors.get(f"{owner}.{part}")
    if found is None:
        file = next(each.file for name, each in tensors.items() if name.startswith(owner))
        fail(file, f"the quantized {printable(owner)} has no {part} beside it; download the checkpoint again")
    fits = len(found.shape) == len(shape) and all(n and n == (m or n) for n, m in zip(found.shape, shape, strict=True))
    if not fits or found.dtype not in dtypes:
        wanted = f"{' or '.join(dtypes)} [{', '.join(str(n or 'any') for n in shape)}]"
        problem = f"tensor {printable(found.name)} is {found.dtype} {list(found.shape)}, not {wanted}"
        fail(found.file, f"{problem}, as the tensors beside it ask; download the checkpoint again")
    return found


def number_of(tensors: Tensors, owner: str, part: str) -> StoredTensor:
    """The tensor "owner.part", which must be one number in F32, F16 or BF16. Raises ModelFileError."""
    found = tensors.get(f"{owner}.{part}")
    return part_of(tensors, owner, part, tuple(FLOATS), (1,) * len(found.shape) if found else ())


def checked_group_size(scales: StoredTensor, size: int, columns: int, groups: int) -> int:
    """The columns of a group, all of them where `size` is not above 0. Raises ModelFileError for other `groups`."""
    each = size if size > 0 else columns
    if -(-columns // each) != groups:
        problem = f"tensor {printable(scales.name)} has {groups} groups, which are not those of {columns} columns"
        fail(scales.file, f"{problem} in groups of {each}; download the checkpoint again")
    return each


def sharing(columns: int, groups: int) -> str:
    """The words of `Precision.sharing`."""
    return f"in groups of {-(-columns // groups)}" if groups > 1 else "with a scale for each row"
