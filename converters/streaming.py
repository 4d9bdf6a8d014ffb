"""The single pass over the weights: read rows, convert them, write them at their offsets.

Tensors are split by rows into chunks that stay in a core's cache from reading to writing. All threads take chunks
from one iterator in the order of the file, so that large tensors and many small ones keep all of them busy.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from converters.output import OutputFile
from converters.row_converter import RowConverter
from converters.tensors import PlannedTensor
from converters.threads import parallel_for

CHUNK_WEIGHTS = 1 << 17
"""Weights in a chunk: 0.5 MB as float32; with its source and encoded bytes it just fits a cache of 1 MB."""

COMPENSATED_WEIGHTS = 1 << 22
"""Weights in a chunk of a tensor that is encoded column by column: many rows, as each column costs some calls."""

_SYNC_BYTES = 64 << 20
"""Bytes written between two syncs, so that the disk is never idle and the last sync is short."""

Progress = Callable[[int, int], None]
"""Called with (done, total): weights written, or kernels compiled."""


class Chunk(NamedTuple):
    """Rows `first` … `last` - 1 of tensor `number`, whose data begins at byte `start` of the file."""

    number: int
    tensor: PlannedTensor
    start: int
    first: int
    last: int


class _ChunkDone(NamedTuple):
    number: int
    weights: int
    nbytes: int
    error: float
    squares: float


@dataclass
class ErrorSums:
    """Sums over the weights of a tensor: `error` of squared errors, `squares` of squared weights."""

    error: float = 0.0
    squares: float = 0.0

    @property
    def relative_rmse(self) -> float:
        """RMS error relative to the RMS of the weights."""
        return sqrt(self.error / self.squares) if self.squares else 0.0


def chunk_weights(tensor: PlannedTensor) -> int:
    """Weights in a chunk of a tensor with short rows."""
    return COMPENSATED_WEIGHTS if tensor.compensated else CHUNK_WEIGHTS


def row_chunks(tensors: Sequence[PlannedTensor], offsets: Sequence[int]) -> Iterator[Chunk]:
    """The chunks of all tensors, in the order of the file. None has rows of different importance."""
    for number, (tensor, start) in enumerate(zip(tensors, offsets, strict=True)):
        rows, step = tensor.source.row_count, max(1, chunk_weights(tensor) // tensor.source.columns)
        alike = rows if tensor.importance is None else rows // len(tensor.importance)
        for part in range(0, rows, alike):
            for first in range(part, part + alike, step):
                yield Chunk(number, tensor, start, first, min(first + step, part + alike))


class WeightStream:
    """Converts tensors and writes them to `output`; `progress` is called after each chunk.

    It may run several times, each time for other tensors; `weights` is the number of the weights of all.
    """

    def __init__(self, converter: RowConverter, output: OutputFile, progress: Progress | None, weights: int) -> None:
        self._converter, self._output, self._progress = converter, output, progress or (lambda done, total: None)
        self._errors: list[ErrorSums] = []
        self._weights, self._all_weights, self._unsynced = 0, weights, 0

    def run(self, tensors: Sequence[PlannedTensor], offsets: Sequence[int], threads: int) -> list[ErrorSums]:
        """Convert tensors, to be written at `offsets`; return the errors of each.

        Raises EdgeLLMError when a source cannot be read, a weight cannot be encoded, or the file cannot be written.
        """
        self._errors = [ErrorSums() for _ in tensors]
        parallel_for(self._convert, row_chunks(tensors, offsets), threads, self._count)
        return self._errors

    def _convert(self, chunk: Chunk) -> _ChunkDone:
        """Convert a chunk, in a worker thread."""
        source, kind = chunk.tensor.source, chunk.tensor.type
        encoded = self._converter.convert(chunk.tensor, chunk.first, source.rows(chunk.first, chunk.last))
        row_bytes = kind.row_bytes(source.columns)
        self._output.write(encoded.data.data.cast("B"), chunk.start + chunk.first * row_bytes)
        weights = (chunk.last - chunk.first) * source.columns
        return _ChunkDone(chunk.number, weights, encoded.data.nbytes, encoded.error, encoded.squares)

    def _count(self, done: _ChunkDone) -> None:
        """Add up the results, and sync now and then, in the calling thread."""
        error_sums = self._errors[done.number]
        error_sums.error += done.error
        error_sums.squares += done.squares
        self._weights += done.weights
        self._progress(self._weights, self._all_weights)
        self._unsynced += done.nbytes
        if self._unsynced >= _SYNC_BYTES:
            self._unsynced = 0
            self._output.sync()
