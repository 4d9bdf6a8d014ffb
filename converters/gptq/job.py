"""The part of a conversion that reads a text, and writes the matrices whose errors are compensated."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

from converters.gptq.compensation import Compensation, ReadingProgress, ReportReading
from converters.gptq.feedback import feedback
from converters.gptq.hessians import Hessian, read_hessians
from converters.gptq.inputs import Input
from converters.importance.apply import check_needed_importance, with_importance
from converters.importance.experts import few_tokens_warnings
from converters.importance.sums import SquareSums, SumsSoFar
from converters.streaming import ErrorSums, WeightStream
from converters.tensors import PlannedTensor
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import OutputSettings
from edgellm.errors import EdgeLLMWarning
from edgellm.gguf.imatrix import Imatrix
from edgellm.model import Model
from edgellm.perplexity.windows import Windows
from kquants.jit import Progress

_LONGER_TEXT = (
    "the importance of their columns is not certain; give --gptq a longer text, of the kinds that the model is for"
)


class CompensationJob:
    """Writes the compensated ones of `tensors` to `stream`, at `offsets`.

    After `run`, `errors` has the errors of those that are written, by their number, and `tensors` are those of the
    conversion with the importance that was measured. A matrix whose inputs were all zero is not written, nor
    `compensated` any more.
    """

    def __init__(
        self,
        compensation: Compensation,
        tensors: Sequence[PlannedTensor],
        offsets: Sequence[int],
        stream: WeightStream,
        threads: int,
    ) -> None:
        self._compensation, self.tensors, self._offsets = compensation, list(tensors), offsets
        self._stream, self._threads = stream, threads
        self._number = {tensor.source.name: i for i, tensor in enumerate(tensors)}
        self.errors: dict[int, ErrorSums] = {}

    def run(self, reading: ReportReading, compiling: Progress | None) -> None:
        """Read the text, as often as the memory needs. Raises EdgeLLMError."""
        passes = self._compensation.passes
        with self._compensation.calibration.model(compiling) as path:
            for number, inputs in enumerate(passes, 1):
                measures = self._compensation.measures and number == 1
                names = frozenset(name for each in inputs for name in each.names)
                settings = OutputSettings(logits=False, squares=measures, inputs=names)
                with Model.open(
                    path, progress=compiling, outputs=settings, threads=self._threads, gpu_layers=0
                ) as model:
                    sums = SquareSums(model.file, SumsSoFar({}, 0))
                    self._pass(model, inputs, sums, ReadingProgress(number, len(passes), 0, 0), reading)
                if measures:
                    self._weight(Imatrix(path, sums.so_far.entries))

    def _weight(self, found: Imatrix) -> None:
        """Give the tensors the importance of their columns. Warns of experts that saw few tokens."""
        self.tensors = with_importance(self.tensors, found)
        check_needed_importance(self.tensors, None)
        weighted = {t.source.name: found.entries[t.source.name] for t in self.tensors if t.importance is not None}
        for warning in few_tokens_warnings(replace(found, entries=weighted), _LONGER_TEXT):
            warnings.warn(warning, EdgeLLMWarning, stacklevel=2)

    def _pass(
        self, model: Model, inputs: Sequence[Input], sums: SquareSums, start: ReadingProgress, reading: ReportReading
    ) -> None:
        """Have the model read the text once, and write the tensors of the inputs."""
        windows = Windows([model], self._compensation.calibration.text, None)

        def after_window(engine: NativeEngine, done: int) -> None:
            if squares := engine.take_squares():
                sums.add(squares)
            reading(start._replace(chunks=done, of=len(windows)))

        reading(start._replace(of=len(windows)))
        for each, hessian in read_hessians(model, windows, inputs, after_window):
            self._write(each.names, hessian)

    def _write(self, names: Sequence[str], hessian: Hessian) -> None:
        """Write the tensors that share an input; the Hessian's memory is used up."""
        importance = hessian.importance[None]
        passed_on = feedback(hessian.sums)
        for number in (self._number[name] for name in names):
            tensor = self.tensors[number]
            if tensor.importance is None or self._compensation.measures:
                tensor = replace(tensor, importance=importance)
            if passed_on is None:
                self.tensors[number] = replace(tensor, compensated=False)
                continue
            ready = replace(tensor, passed_on=passed_on)
            (self.errors[number],) = self._stream.run([ready], [self._offsets[number]], self._threads)
