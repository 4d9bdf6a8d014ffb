"""Importance matrices (imatrix): for each tensor of a model, the sums of squares of what it is multiplied by.

llama.cpp has two formats of them (tools/imatrix/imatrix.cpp), all numbers little-endian:

    GGUF   metadata `general.type` "imatrix", `imatrix.datasets`, `imatrix.chunk_count`, `imatrix.chunk_size`; for each
           tensor of the model NAME.in_sum2, F32 (matrices, columns), the sums, and NAME.counts, F32 (matrices, 1), the
           numbers of rows; `matrices` is that of experts, else 1, where a matrix for each head has its columns side by
           side
    older  entries i32 | for each: length i32, name | calls i32 | values i32 | F32[values], the means times `calls`
    (.dat) | and perhaps chunks i32 | length i32, dataset
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgellm.errors import ModelFileError
from edgellm.fmt import printable, shown_path
from edgellm.gguf.detect import is_older_imatrix
from edgellm.gguf.file import GGUFFile
from edgellm.gguf.older_imatrix import read_older_imatrix
from edgellm.gguf.tensors import Tensor
from edgellm.gguf.values import StringArray

SUMS, COUNTS = ".in_sum2", ".counts"
"""What the names of the two tensors of an entry end in."""

_AGAIN = "make it again with `edgellm imatrix`"


@dataclass(frozen=True)
class ImatrixEntry:
    """The sums of squares of a tensor, float32 [counted, values], and the numbers of rows, int64 [counted].

    `counted` is the number of experts of a stack, else 1; `values` are then those of all matrices.
    """

    sums: NDArray[np.float32]
    counts: NDArray[np.int64]

    def means(self) -> NDArray[np.float32]:
        """The mean squares, float32 [counted, values]. An expert that no row chose has those of all rows together."""
        sums, counts = self.sums.astype(np.float64), self.counts[:, None].astype(np.float64)
        together = sums.sum(axis=0, where=counts > 0) / max(1.0, counts.sum())
        return np.where(counts, sums / np.maximum(counts, 1), together).astype(np.float32)


@dataclass(frozen=True)
class Imatrix:
    """An importance matrix: `entries` by the names of the model's tensors; None for what the file does not say.

    `chunks` is the number of chunks of the text that were read, each of `chunk_size` tokens, `datasets` the names of
    the texts. `marks` are further texts of the metadata by their keys.
    """

    path: Path
    entries: Mapping[str, ImatrixEntry]
    datasets: tuple[str, ...] = ()
    chunks: int | None = None
    chunk_size: int | None = None
    marks: Mapping[str, str] | None = None


def is_imatrix(file: GGUFFile) -> bool:
    """Whether an open GGUF file is an importance matrix."""
    return file.hint("general.type", str) == "imatrix"


def read_imatrix(path: str | os.PathLike[str], advice: str = _AGAIN) -> Imatrix:
    """Read an importance matrix in either format, and check it.

    Raises ModelFileError, which names the file and what is wrong, and ends with `advice` where there is a file.
    """
    path = Path(path)
    try:
        if found := find_imatrix(path):
            return found
    except ModelFileError as error:  # its own advice is for models
        raise ModelFileError(f"{str(error).rpartition('; ')[0]}; {advice}") from None
    if path.exists() and os.access(path, os.R_OK):
        raise ModelFileError(f"{_name(path)}: is no importance matrix; {advice}")
    with GGUFFile.open(path) as file:  # or it says why the file cannot be read
        return imatrix_of(file)


def find_imatrix(path: Path) -> Imatrix | None:
    """The importance matrix in a file, None for a GGUF file of another kind and what is neither.

    Raises ModelFileError for a damaged one, and for a damaged GGUF file.
    """
    try:
        if not path.is_file():  # a FIFO would block
            return None
        with path.open("rb") as opened:
            head = opened.read(512)
    except (OSError, ValueError):  # ValueError: a path with a zero byte
        return None
    if is_older_imatrix(head):
        return _older_imatrix(path)
    if not head.startswith(b"GGUF"):
        return None
    with GGUFFile.open(path) as file:
        return imatrix_of(file) if is_imatrix(file) else None


def imatrix_of(file: GGUFFile) -> Imatrix:
    """The importance matrix in an open GGUF file. Raises ModelFileError for another or a damaged one."""
    if not is_imatrix(file):
        file.fail(f"is no importance matrix; {_AGAIN}")
    names = [name.removesuffix(SUMS) for name in file.tensors if name.endswith(SUMS)]
    if not names or len(file.tensors) != 2 * len(names):
        file.fail(f"is damaged: it has {len(names)} tensors of sums and {len(file.tensors)} in all; {_AGAIN}")
    datasets = file.metadata.get("imatrix.datasets")
    return Imatrix(
        path=file.path,
        entries={name: _entry(file, name) for name in names},
        datasets=tuple(datasets) if isinstance(datasets, StringArray) else (),
        chunks=_number(file, "imatrix.chunk_count"),
        chunk_size=_number(file, "imatrix.chunk_size"),
        marks={key: value for key, value in file.metadata.items() if isinstance(value, str)},
    )


def _number(file: GGUFFile, key: str) -> int | None:
    value = file.hint(key, int)
    if value is not None and not 0 <= value < 1 << 31:
        file.fail(f"is damaged: key {key} is {value}; {_AGAIN}")
    return value


def _entry(file: GGUFFile, name: str) -> ImatrixEntry:
    sums, counts = (_floats(file, name + suffix) for suffix in (SUMS, COUNTS))
    if sums.size % counts.size or not np.array_equal(counts, np.rint(counts)) or counts.max() >= 2**62:
        problem = f"has sums of {sums.size} values of {printable(name)}, which its {counts.size} counts do not fit"
        file.fail(f"{problem}; {_AGAIN}")
    return ImatrixEntry(sums.reshape(counts.size, -1), counts.astype(np.int64))


def _floats(file: GGUFFile, name: str) -> NDArray[np.float32]:
    """All values of a tensor, float32, finite and not negative."""
    tensor: Tensor | None = file.tensors.get(name)
    if tensor is None or tensor.type.name != "F32":
        file.fail(f"is damaged: it needs {printable(name)} of type F32; {_AGAIN}")
    values: NDArray[np.float32] = tensor.data.view("<f4").astype(np.float32)
    _check_values(file.path, name, values)
    return values


def _check_values(path: Path, name: str, values: NDArray[np.float32]) -> None:
    if not (np.isfinite(values) & (values >= 0)).all():
        what = "NaN or Inf" if not np.isfinite(values).all() else "negative values"
        raise ModelFileError(f"{_name(path)}: {printable(name)} holds {what}, which no sum of squares is; {_AGAIN}")


def _older_imatrix(path: Path) -> Imatrix:
    found = read_older_imatrix(path, _AGAIN)
    for name, entry in found.entries.items():
        _check_values(path, name, entry.sums)
    entries = {
        name: ImatrixEntry(sums[None], np.array([calls], np.int64)) for name, (calls, sums) in found.entries.items()
    }
    return Imatrix(path, entries, tuple(filter(None, [found.dataset])), found.chunks)


def _name(path: Path) -> str:
    return shown_path(path)
