"""The header of a safetensors file, read and checked."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path

from converters.checkpoint.files import LFS_POINTER, fail
from edgellm.fmt import printable, size

# Bytes per number by safetensors' dtype; types of less than a byte are left out.
_WIDTHS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 8),
}

# The largest checkpoints have a hundredth of it. The library accepts 100 MB, and needs ten times that in memory.
_MAX_HEADER_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file: its Hugging Face name, and its dtype in safetensors' notation.

    `shape` is outermost first, () for a single number; `offset` is in bytes from the start of `file`.
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


def read_shard(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by name. Raises ModelFileError.

    The format (https://huggingface.co/docs/safetensors, "Format"): a 64-bit length, a JSON header of that length, the
    tensors. The library checks that tensors follow each other without gaps, so order and sizes give their offsets.
    """
    nbytes, head = _head(path)
    at = 8 + int.from_bytes(head[:8], "little")
    if _MAX_HEADER_BYTES < at <= nbytes:
        fail(path, f"has a header of {size(at)}, longer than that of any model; download it again")
    tensors = {}
    for name, dtype, shape in _read_by_library(path, head, at, nbytes):
        if dtype not in _WIDTHS:
            what = f"tensor {printable(name)} has the dtype {printable(dtype)}"
            fail(path, f"{what}, which is not supported; get a checkpoint in BF16")
        tensors[name] = StoredTensor(name, shape, dtype, path, at)
        at += tensors[name].nbytes
    if at != nbytes:
        fail(path, f"is damaged: its tensors end at byte {at} of {nbytes}; download it again")
    return tensors


def _head(path: Path) -> tuple[int, bytes]:
    """The size of a file and its first bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a FIFO would block
            fail(path, "is not a regular file; download it again")
        with path.open("rb") as file:
            return status.st_size, file.read(len(LFS_POINTER))
    except FileNotFoundError:
        fail(path, "is missing, a part of the checkpoint; download it")
    except OSError as error:
        fail(path, f"cannot be read ({error.strerror}); check its permissions and disk")


def _read_by_library(path: Path, head: bytes, header: int, nbytes: int) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name, dtype and shape of each tensor, in the order of their bytes; `header` is the number of header bytes."""
    from safetensors import SafetensorError, safe_open

    try:
        with _safe_to_map(path, header, nbytes) as safe, safe_open(safe, framework="numpy") as opened:
            slices = [(name, opened.get_slice(name)) for name in opened.offset_keys()]
            return [(name, found.get_dtype(), tuple(found.get_shape())) for name, found in slices]
    except OSError as error:
        fail(path, f"cannot be read ({error.strerror or error}); check its permissions and disk")
    except SafetensorError as error:
        if head == LFS_POINTER:
            fail(path, "is a Git LFS pointer, not the weights; run `git lfs pull`, or download it")
        reason = str(error).removeprefix("Error while deserializing header: ")
        fail(path, f"is cut off or damaged ({printable(reason, 160)}); download it again")


@contextmanager
def _safe_to_map(path: Path, header: int, nbytes: int) -> Iterator[Path]:
    """A private copy of the header in a sparse file of the same size, which no other program can truncate.

    The library maps the file, and a truncated map would end the process. If the copy cannot be written (a full disk, a
    limit on file sizes), the file itself is used: it is seldom truncated at that moment.
    """
    with ExitStack() as stack:
        copy = None
        if os.name == "posix":
            with path.open("rb") as file:
                start = file.read(min(header, nbytes))
            copy = _copied(start, nbytes, stack)
        yield copy or path


def _copied(start: bytes, nbytes: int, until: ExitStack) -> Path | None:
    """A temporary file of `nbytes` bytes that begins with `start`; None if it cannot be written."""
    with suppress(OSError):
        copy = until.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 (it is entered)
        copy.truncate(nbytes)
        if copy.write(start) == len(start):
            return Path(f"/dev/fd/{copy.fileno()}")
    return None
