"""One safetensors file: mapped, its header read and checked."""

import mmap
import stat
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import LFS_POINTER, fail
from edgellm.gguf.printable import printable

# Bytes of a number, by the names of safetensors' format; those of less than a byte are left out.
_WIDTHS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 8),
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as it is stored: its Hugging Face name, the dtype as safetensors calls it, where it begins.

    `shape` is outermost first, () for a single number; `offset` counts from the start of `file`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: Path
    offset: int

    @property
    def width(self) -> int:
        """Bytes of one number."""
        return _WIDTHS[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return prod(self.shape) * self.width


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """A mapped safetensors file; `data` are its bytes, uint8 [bytes]."""

    path: Path
    map: mmap.mmap
    data: NDArray[np.uint8]
    tensors: dict[str, StoredTensor]


def open_shard(path: Path) -> Shard:
    """Map a file and read its header. Raises ModelFileError."""
    mapped = _map(path)
    data = np.frombuffer(mapped, np.uint8)
    return Shard(path, mapped, data, {tensor.name: tensor for tensor in _read_header(path, data)})


def _map(path: Path) -> mmap.mmap:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            fail(path, "is not a regular file; download it again")
        if status.st_size == 0:
            fail(path, "is empty; download it again")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        fail(path, "is missing, a part of the checkpoint; download it")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        fail(path, f"cannot be read ({reason}); check its permissions and disk")


def _read_header(path: Path, data: NDArray[np.uint8]) -> list[StoredTensor]:
    """The tensors in the order of their bytes.

    The format (https://huggingface.co/docs/safetensors, "Format"): a 64-bit length, that much JSON, the tensors. Its
    library has seen to it that they follow each other without gaps, so their order and sizes say where they are.
    """
    at = 8 + int.from_bytes(data[:8].tobytes(), "little")
    tensors = []
    for name, dtype, shape in _read_by_library(path, data):
        if dtype not in _WIDTHS:
            fail(
                path, f"tensor {printable(name)} has the dtype {printable(dtype)}, which is not supported; get another"
            )
        tensors.append(StoredTensor(name, shape, dtype, path, at))
        at += tensors[-1].nbytes
    # Nothing may be read behind the end of the map, whatever another program does to the file in between.
    if at != data.size:
        fail(path, f"is damaged: its tensors end at byte {at} of {data.size}; download it again")
    return tensors


def _read_by_library(path: Path, data: NDArray[np.uint8]) -> list[tuple[str, str, tuple[int, ...]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as opened:
            slices = [(name, opened.get_slice(name)) for name in opened.offset_keys()]
            return [(name, found.get_dtype(), tuple(found.get_shape())) for name, found in slices]
    except SafetensorError as error:
        _refuse(path, data, str(error).removeprefix("Error while deserializing header: "))
    except OSError as error:
        fail(path, f"cannot be read ({error.strerror}); check its permissions and disk")


def _refuse(path: Path, data: NDArray[np.uint8], reason: str) -> NoReturn:
    if data[: len(LFS_POINTER)].tobytes() == LFS_POINTER:
        fail(path, "is a Git LFS pointer, not the weights; run `git lfs pull`, or download it")
    fail(path, f"is cut off or damaged ({printable(reason, 160)}); download it again")
