"""A conversion, completely checked and ready to run: what is read, what it becomes, and where it goes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from converters.estimate import estimate_memory, estimate_seconds
from converters.file_stamps import FileStamps
from converters.header import EncodedMetadata, GGUFLayout, encode_value, layout_file
from converters.loadable import check_loadable
from converters.output import atomic_output
from converters.quant_mixes import QUANT_MIXES
from converters.report import ConversionPlan, Report, tensor_reports
from converters.row_converter import RowConverter
from converters.streaming import Progress, WeightStream
from converters.target import check_disk_space
from converters.tensors import MetadataValue, PlannedTensor
from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.options.checks import integer
from edgellm.system.machine import default_threads

_MOST_COLUMNS = 1 << 18
"""Weights of a row at most: tensors are cut into rows, and each thread has a whole one in memory."""

_MOST_THREADS = 512
_BLOCKS_VERSION = 2  # ggml.h: GGML_QNT_VERSION


@dataclass(frozen=True)
class Conversion:
    """Made by `converters.prepare_convert` and `converters.prepare_quantize`."""

    target: Path
    layout: GGUFLayout = field(repr=False)
    tensors: Sequence[PlannedTensor] = field(repr=False)
    threads: int
    read: FileStamps = field(repr=False)

    def plan(self, compiling: Progress | None = None) -> ConversionPlan:
        """What `run` would do. Nothing is written, and no weight read; the encoders are tried on noise."""
        converter = RowConverter(self.tensors, compiling)
        tensors = tensor_reports(self.tensors, [None] * len(self.tensors))
        memory, seconds = (
            estimate_memory(self.tensors, self.threads),
            estimate_seconds(converter, self.tensors, self.threads),
        )
        return ConversionPlan(self.target, self.layout.nbytes, tensors, memory, seconds, self.threads)

    def run(self, progress: Progress | None = None, compiling: Progress | None = None) -> Report:
        """Write the file, which appears under its name whole or not at all.

        `progress` is called with weights, `compiling` with kernels while they are compiled for the first time.
        Raises EdgeLLMError for what cannot be read, encoded or written.
        """
        converter = RowConverter(self.tensors, compiling)
        since = monotonic()
        with atomic_output(self.target, self.layout.nbytes) as output:
            output.write(memoryview(self.layout.header), 0)
            losses = WeightStream(converter, output, progress).run(self.tensors, self.layout.offsets, self.threads)
            self.read.check()
        tensors = tensor_reports(self.tensors, [loss.relative for loss in losses])
        return Report(self.target, self.layout.nbytes, tensors, monotonic() - since)


def prepare(
    pairs: EncodedMetadata,
    tensors: Sequence[PlannedTensor],
    mix: str,
    *,
    target: Path,
    read: Sequence[Path],
    runs: str | None,
    threads: int | None,
) -> Conversion:
    """A job that writes `tensors` with `pairs` as its metadata to `target`; `read` are the files it reads meanwhile.

    `runs` names what the file is made of, where edgellm must be able to open the new one.

    Raises OptionError for a number of threads that is none, UnsupportedModelError for a row that is too long,
    ModelFileError for a file that edgellm would not open, and EdgeLLMError where the disk has no room.
    """
    _check_rows(tensors)
    layout = layout_file(with_file_type(pairs, mix), tensors)
    check_disk_space(target, layout.nbytes)
    if runs is not None:
        check_loadable(layout, tensors, target, runs)
    count = _checked(threads) if threads is not None else default_threads(layout.nbytes)
    return Conversion(target, layout, tensors, count, FileStamps(read))


def _checked(threads: int) -> int:
    try:
        return integer(1, _MOST_THREADS)(threads)
    except ValueError as error:
        raise OptionError(f"option threads cannot be {threads!r}: give {error}") from None


def _check_rows(tensors: Sequence[PlannedTensor]) -> None:
    for source in (tensor.source for tensor in tensors):
        if source.columns > _MOST_COLUMNS:
            name = printable(source.name)
            raise UnsupportedModelError(f"tensor {name}: rows of {source.columns} weights are too long for edgellm")


def with_file_type(pairs: EncodedMetadata, mix: str) -> dict[str, bytes]:
    """Metadata that says which recipe the file is made by, where it has such keys or else at its end."""
    return {
        **pairs,
        "general.file_type": encode_value(MetadataValue("u32", QUANT_MIXES[mix].file_type)),
        "general.quantization_version": encode_value(MetadataValue("u32", _BLOCKS_VERSION)),
    }
