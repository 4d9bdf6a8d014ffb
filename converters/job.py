"""A conversion, completely checked and ready to run: what is read, what it becomes, and where it goes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from converters.codec import Codec
from converters.estimate import memory_needed, seconds_needed
from converters.header import Layout, Pairs, encode_value, lay_out
from converters.output import replacing
from converters.pipeline import Pass, Progress
from converters.readable import check_readable
from converters.recipes import RECIPES
from converters.report import Plan, Report, described
from converters.target import check_room
from converters.tensors import Planned, Value
from converters.unchanged import Watched
from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.options.checks import integer
from edgellm.system.machine import default_threads

_MOST_COLUMNS = 1 << 18
"""Weights of a row at most: tensors are cut into rows, and each thread has a whole one in memory."""

_MOST_THREADS = 512
_BLOCKS_VERSION = 2  # ggml.h: GGML_QNT_VERSION


@dataclass(frozen=True)
class Job:
    """Made by `converters.prepare_convert` and `converters.prepare_quantize`."""

    target: Path
    layout: Layout = field(repr=False)
    tensors: Sequence[Planned] = field(repr=False)
    threads: int
    read: Watched = field(repr=False)

    def plan(self, compiling: Progress | None = None) -> Plan:
        """What `run` would do. Nothing is written, and no weight read; the encoders are tried on noise."""
        codec = Codec(self.tensors, compiling)
        tensors = described(self.tensors, [None] * len(self.tensors))
        memory, seconds = memory_needed(self.tensors, self.threads), seconds_needed(codec, self.tensors, self.threads)
        return Plan(self.target, self.layout.nbytes, tensors, memory, seconds, self.threads)

    def run(self, progress: Progress | None = None, compiling: Progress | None = None) -> Report:
        """Write the file, which appears under its name whole or not at all.

        `progress` is called with weights, `compiling` with kernels while they are compiled for the first time.
        Raises EdgeLLMError for what cannot be read, encoded or written.
        """
        codec = Codec(self.tensors, compiling)
        since = monotonic()
        with replacing(self.target, self.layout.nbytes) as output:
            output.write(memoryview(self.layout.header), 0)
            losses = Pass(codec, output, progress).run(self.tensors, self.layout.offsets, self.threads)
            self.read.check()
        tensors = described(self.tensors, [loss.relative for loss in losses])
        return Report(self.target, self.layout.nbytes, tensors, monotonic() - since)


def prepare(
    pairs: Pairs,
    tensors: Sequence[Planned],
    recipe: str,
    *,
    target: Path,
    read: Sequence[Path],
    runs: str | None,
    threads: int | None,
) -> Job:
    """A job that writes `tensors` with `pairs` as its metadata to `target`; `read` are the files it reads meanwhile.

    `runs` names what the file is made of, where edgellm must be able to open the new one.

    Raises OptionError for a number of threads that is none, UnsupportedModelError for a row that is too long,
    ModelFileError for a file that edgellm would not open, and EdgeLLMError where the disk has no room.
    """
    _check_rows(tensors)
    layout = lay_out(typed(pairs, recipe), tensors)
    check_room(target, layout.nbytes)
    if runs is not None:
        check_readable(layout, tensors, target, runs)
    count = _checked(threads) if threads is not None else default_threads(layout.nbytes)
    return Job(target, layout, tensors, count, Watched(read))


def _checked(threads: int) -> int:
    try:
        return integer(1, _MOST_THREADS)(threads)
    except ValueError as error:
        raise OptionError(f"option threads cannot be {threads!r}: give {error}") from None


def _check_rows(tensors: Sequence[Planned]) -> None:
    for source in (tensor.source for tensor in tensors):
        if source.columns > _MOST_COLUMNS:
            name = printable(source.name)
            raise UnsupportedModelError(f"tensor {name}: rows of {source.columns} weights are too long for edgellm")


def typed(pairs: Pairs, recipe: str) -> dict[str, bytes]:
    """Metadata that says which recipe the file is made by, where it has such keys or else at its end."""
    return {
        **pairs,
        "general.file_type": encode_value(Value("u32", RECIPES[recipe].file_type)),
        "general.quantization_version": encode_value(Value("u32", _BLOCKS_VERSION)),
    }
