"""A checked conversion, ready to run: source tensors, their new types, and the target file."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from converters.estimate import estimate_memory, estimate_seconds
from converters.file_stamps import FileStamps
from converters.gptq.compensation import Calibration, Compensation, ReportReading, compensation
from converters.gptq.job import CompensationJob
from converters.header import EncodedMetadata, GGUFLayout, encode_pairs, encode_value, layout_file
from converters.importance.apply import check_needed_importance, imatrix_metadata, is_weighted, with_importance
from converters.loadable import LoadableModel, check_loadable
from converters.output import atomic_output
from converters.quant_mixes import file_type
from converters.report import ConversionPlan, PredictionLayers, Report, tensor_reports
from converters.row_converter import RowConverter
from converters.streaming import ErrorSums, Progress, WeightStream
from converters.target import check_disk_space
from converters.tensors import MetadataValue, PlannedTensor
from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.gguf.imatrix import Imatrix
from edgellm.options.checks import integer
from edgellm.system.machine import default_threads

_MAX_COLUMNS = 1 << 18
"""Largest number of weights in a row: each thread holds at least one row in memory."""

_MAX_THREADS = 512
_BLOCKS_VERSION = 2  # ggml.h: GGML_QNT_VERSION


@dataclass(frozen=True)
class Conversion:
    """Created by `converters.prepare_convert` and `converters.prepare_quantize`.

    `source_files` must not change before the target is complete; `source_note` and `prediction` go into plan and
    report. `lacking` are the names of tensors of which the importance matrix, if one is given, has nothing.
    `compensation` is for the tensors whose errors are compensated. `measuring_seconds` went by while the types of the
    tensors were chosen.
    """

    target: Path
    layout: GGUFLayout = field(repr=False)
    tensors: Sequence[PlannedTensor] = field(repr=False)
    threads: int
    source_files: FileStamps = field(repr=False)
    source_note: str = ""
    prediction: PredictionLayers | None = None
    lacking: frozenset[str] = frozenset()
    compensation: Compensation | None = None
    measuring_seconds: float = 0.0

    def plan(self, compile_progress: Progress | None = None) -> ConversionPlan:
        """The dry run. Writes nothing and reads no weights; encoding speed is measured on noise."""
        converter = RowConverter(self.tensors, compile_progress)
        tensors = tensor_reports(self.tensors, [None] * len(self.tensors), self.lacking)
        memory = estimate_memory(self.tensors, self.threads)
        memory += self.compensation.memory if self.compensation else 0
        seconds = estimate_seconds(converter, self.tensors, self.threads)
        return ConversionPlan(
            self.target, self.layout.nbytes, tensors, self.source_note, self.prediction, memory, seconds, self.threads
        )

    def run(
        self,
        progress: Progress | None = None,
        compile_progress: Progress | None = None,
        reading: ReportReading = lambda so_far: None,
    ) -> Report:
        """Write the target file, which appears only when it is complete.

        `progress` is called with (weights written, all weights), `compile_progress` with (kernels compiled, all),
        `reading` while a model reads the text by which errors are compensated. Raises EdgeLLMError when a source cannot
        be read, a weight cannot be encoded, or the file cannot be written.
        """
        converter = RowConverter(self.tensors, compile_progress)
        since = monotonic()
        with atomic_output(self.target, self.layout.nbytes) as output:
            output.write(memoryview(self.layout.header), 0)
            stream = WeightStream(converter, output, progress, sum(each.weights for each in self.tensors))
            tensors, written = self.tensors, dict[int, ErrorSums]()
            if self.compensation:
                job = CompensationJob(self.compensation, tensors, self.layout.offsets, stream, self.threads)
                job.run(reading, compile_progress)
                tensors, written = job.tensors, job.errors
            rest = [i for i in range(len(tensors)) if i not in written]
            offsets = [self.layout.offsets[i] for i in rest]
            written |= zip(rest, stream.run([tensors[i] for i in rest], offsets, self.threads), strict=True)
            self.source_files.check_unchanged()
        errors = [written[i].relative_rmse for i in range(len(tensors))]
        reports = tensor_reports(tensors, errors, self.lacking)
        seconds = self.measuring_seconds + monotonic() - since
        return Report(self.target, self.layout.nbytes, reports, self.source_note, self.prediction, seconds)


def prepare(
    pairs: EncodedMetadata,
    tensors: Sequence[PlannedTensor],
    mix: str,
    *,
    target: Path,
    source_files: Sequence[Path],
    source_name: str | None,
    threads: int | None,
    source_note: str = "",
    imatrix: Imatrix | None = None,
    gptq: Calibration | None = None,
) -> Conversion:
    """A conversion that writes `tensors` with the metadata `pairs` to `target`; `source_files` are read for it.

    With `imatrix`, errors are weighted by the importance of columns; with `gptq`, those of one column are made good by
    later ones, and where there is no `imatrix`, the importance is that of the text. Unless `source_name` is None,
    edgellm must be able to open the new file; errors then name that source.

    Raises OptionError for an invalid number of threads and a type that needs importance, UnsupportedModelError for a
    row that is too long, ModelFileError if edgellm could not open the new file or the importance matrix does not fit,
    EdgeLLMError if the disk has too little space, or the text of `gptq` is too short.
    """
    _check_rows(tensors)
    lacking = frozenset[str]()
    if imatrix:
        pairs, tensors = {**pairs, **encode_pairs(imatrix_metadata(imatrix))}, with_importance(tensors, imatrix)
        lacking = frozenset(t.source.name for t in tensors if is_weighted(t) and t.importance is None)
    if gptq:
        pairs = {**pairs, **encode_pairs(gptq.metadata())}
    if imatrix or not gptq:
        check_needed_importance(tensors, imatrix)
    layout = layout_file(with_file_type(pairs, mix, tensors), tensors)
    check_disk_space(target, layout.nbytes)
    model = None if source_name is None else check_loadable(layout, tensors, target, source_name)
    plan = None
    if gptq:
        plan = _compensation(tensors, model, gptq, measures=imatrix is None)
        tensors = [replace(tensor, compensated=tensor.source.name in plan.names) for tensor in tensors]
    count = _checked(threads) if threads is not None else default_threads(layout.nbytes)
    return Conversion(
        target, layout, tensors, count, FileStamps(source_files), source_note, model and model.prediction, lacking, plan
    )


def _compensation(
    tensors: Sequence[PlannedTensor], model: LoadableModel | None, gptq: Calibration, measures: bool
) -> Compensation:
    if model is None:
        raise UnsupportedModelError("--gptq needs a model that edgellm can run; leave it out, or use --imatrix")
    return compensation(tensors, model, gptq, measures)


def _checked(threads: int) -> int:
    try:
        return integer(1, _MAX_THREADS)(threads)
    except ValueError as error:
        raise OptionError(f"option threads cannot be {threads!r}: give {error}") from None


def _check_rows(tensors: Sequence[PlannedTensor]) -> None:
    for source in (tensor.source for tensor in tensors):
        if source.columns > _MAX_COLUMNS:
            name = printable(source.name)
            raise UnsupportedModelError(f"tensor {name}: rows of {source.columns} weights are too long for edgellm")


def with_file_type(pairs: EncodedMetadata, mix: str, tensors: Sequence[PlannedTensor]) -> dict[str, bytes]:
    """`pairs` with `general.file_type` and `general.quantization_version`, replaced in place or appended."""
    return {
        **pairs,
        "general.file_type": encode_value(MetadataValue("u32", file_type(mix, tensors))),
        "general.quantization_version": encode_value(MetadataValue("u32", _BLOCKS_VERSION)),
    }
