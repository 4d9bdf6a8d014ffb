"""The sums of squares of a model's inputs so far, and their file."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.header import encode_pairs, layout_file
from converters.output import atomic_output
from converters.tensors import MetadataValue, PlannedTensor, Source
from edgellm.engine.outputs import InputSquares
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, shown_path
from edgellm.gguf import GGUFFile
from edgellm.gguf.imatrix import COUNTS, SUMS, Imatrix, ImatrixEntry
from kquants.ggml import NAMED_TYPES

MODEL_MARK, TEXT_MARK = "edgellm.imatrix.model", "edgellm.imatrix.text"
"""Metadata keys of hashes: of the model, and of the tokens that were read. Other programs ignore them."""

_SAMPLE_BYTES = 4096
START_ANEW = "choose another name, or start anew with --force"
"""What to do with an existing file that cannot be gone on with."""


def model_mark(file: GGUFFile, kv_type: str) -> str:
    """A hash of what a model computes by: names, types, shapes and first bytes of its tensors, and the KV type."""
    known = sha256(f"{file.get_str('general.architecture')} {kv_type}".encode())
    for tensor in file.tensors.values():
        known.update(f"{tensor.name} {tensor.type.name} {tensor.shape}".encode())
        known.update(tensor.data[:_SAMPLE_BYTES].tobytes())
    return known.hexdigest()


def text_mark(ids: Iterable[int]) -> str:
    """A hash of token ids."""
    return sha256(np.fromiter(ids, "<i4").tobytes()).hexdigest()


class SumsSoFar(NamedTuple):
    """The sums for each tensor of a model, and the number of chunks of the text that they are of."""

    entries: Mapping[str, ImatrixEntry]
    chunks: int


class SquareSums:
    """The sums `so_far`, to which those of one chunk of the text after another are added.

    They are rounded to float32 after each chunk, as the file has them: a run that is interrupted and goes on writes the
    same file as one that does not stop.
    """

    def __init__(self, file: GGUFFile, so_far: SumsSoFar) -> None:
        self._file, self.so_far = file, so_far

    def add(self, squares: Iterable[InputSquares]) -> None:
        """Add the sums of a chunk. Raises EdgeLLMError for NaN and Inf. An interrupt leaves the sums as they were."""
        entries, chunks = self.so_far
        added = {name: self._added(name, entries.get(name), *new) for name, new in self._by_name(squares).items()}
        self.so_far = SumsSoFar({**entries, **added}, chunks + 1)

    def _added(
        self, name: str, before: ImatrixEntry | None, sums: NDArray[np.float64], counts: NDArray[np.int64]
    ) -> ImatrixEntry:
        if before is not None:
            if before.sums.shape != sums.shape:
                raise EdgeLLMError(f"the file to go on with has other sizes for {printable(name)}; {START_ANEW}")
            sums, counts = before.sums + sums, before.counts + counts
        with np.errstate(over="ignore"):
            total = sums.astype(np.float32)
        if not np.isfinite(total).all():
            where = f"{shown_path(self._file.path)}: tensor {printable(name)}"
            raise EdgeLLMError(f"{where} is multiplied by NaN or huge numbers; edgellm verify may tell why")
        return ImatrixEntry(total, counts)

    def _by_name(self, squares: Iterable[InputSquares]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """The sums [counted, values] and counts of each tensor, which may be multiplied in several places."""
        found: dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
        for each in squares:
            for name in each.names:
                sums, counts = self._shaped(name, each), each.counts
                if name in found:
                    sums, counts = found[name][0] + sums, found[name][1] + counts
                found[name] = sums, counts
        return found

    def _shaped(self, name: str, squares: InputSquares) -> NDArray[np.float64]:
        """Sums as [counted, values]; those of a single matrix of a stack stand for each matrix."""
        shape, sums = self._file.tensors[name].shape, squares.sums
        if len(shape) == 3 and len(sums) < shape[0]:
            sums = np.repeat(sums, shape[0], axis=0)
        return sums.reshape(len(squares.counts), -1)


def write_imatrix(found: Imatrix) -> None:
    """Write an importance matrix to its path, in GGUF, in one step. Raises EdgeLLMError."""
    metadata = {"general.type": MetadataValue("str", "imatrix")}
    metadata |= {"imatrix.datasets": MetadataValue("str", list(found.datasets))}
    metadata |= {"imatrix.chunk_count": MetadataValue("u32", found.chunks)}
    metadata |= {"imatrix.chunk_size": MetadataValue("u32", found.chunk_size)}
    metadata |= {key: MetadataValue("str", value) for key, value in (found.marks or {}).items()}
    tensors, data = [], []
    for name, entry in sorted(found.entries.items()):
        for suffix, values in ((SUMS, entry.sums), (COUNTS, entry.counts[:, None].astype(np.float32))):
            tensors.append(_tensor(name + suffix, values))
            data.append(np.ascontiguousarray(values, "<f4"))
    layout = layout_file(encode_pairs(metadata), tensors)
    with atomic_output(found.path, layout.nbytes) as output:
        output.write(memoryview(layout.header), 0)
        for offset, values in zip(layout.offsets, data, strict=True):
            output.write(values.data.cast("B"), offset)


def _tensor(name: str, values: NDArray[np.float32]) -> PlannedTensor:
    data = values.view(np.uint8)
    source = Source(name, values.shape, "F32", lambda first, last: data[first:last])
    return PlannedTensor(source, NAMED_TYPES["F32"])


def resumed(found: Imatrix, ids: Sequence[int], ctx: int, model: str) -> SumsSoFar:
    """The sums of a file to go on with. Raises EdgeLLMError if it is of another model, text or chunk size."""
    marks, chunks = found.marks or {}, found.chunks or 0
    other = ""
    if MODEL_MARK not in marks:
        other = "was made by another program"
    elif marks[MODEL_MARK] != model:
        other = "is of another model, or of another --kv-type"
    elif found.chunk_size != ctx:
        other = f"has chunks of {found.chunk_size:,} tokens, not {ctx:,}"
    elif marks.get(TEXT_MARK) != text_mark(ids[: chunks * ctx]):
        other = "is of a text that begins otherwise"
    if other:
        name = shown_path(found.path)
        raise EdgeLLMError(f"{name}: exists, and {other}; {START_ANEW}")
    return SumsSoFar(found.entries, chunks)
