"""GGUF to GGUF: the same model in other types."""

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import monotonic

from converters.conversion import Conversion, prepare
from converters.dynamic import BASE_MIX, dynamic_settings, dynamic_tensors, free_tensors, nearest_mix
from converters.gguf_source import gguf_sources, raw_pairs
from converters.gptq.compensation import Calibration, check_length, read_calibration
from converters.importance.apply import check_needed_importance, with_importance
from converters.loadable import LoadableModel, find_loadable
from converters.quant_mixes import assign_types, mix_name, parse_override
from converters.report import Report
from converters.streaming import Progress
from converters.target import check_target
from converters.tensors import PlannedTensor
from edgellm.errors import EdgeLLMWarning, UnsupportedModelError
from edgellm.fmt import printable, shown_path
from edgellm.gguf import GGUFFile, sigbus
from edgellm.gguf.imatrix import Imatrix, read_imatrix
from kquants import FLOAT_FORMATS
from kquants.plain_types import NUMBERS


def quantize(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = "Q4_K_M",
    *,
    tensor_types: Sequence[str] = (),
    force: bool = False,
    requantize: bool = False,
    imatrix: str | os.PathLike[str] | None = None,
    gptq: str | os.PathLike[str] | None = None,
    size: str | None = None,
    bits: float | None = None,
    calibration: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write the GGUF file `source`, with all its parts, to the file `out` with the quantization mix `type`.

    Metadata is kept. `tensor_types` are exceptions such as "ffn_down=Q6_K"; `force` replaces an existing file;
    `requantize` allows quantized tensors to be quantized again, with a warning. A file in one part whose tensors all
    have the requested types already causes a warning, too. `imatrix` is the file of an importance matrix, of `edgellm
    imatrix` or llama.cpp, by which errors are weighted; the new file names it. `gptq` is a text file, which the model
    reads first: errors of one column of a matrix are then made good by later columns (GPTQ), and without `imatrix` the
    text also says which columns matter. `progress` is called with (weights
    written, all weights).

    With the type "dynamic" the model reads the text `calibration` once for each tensor, and those that cost it most get
    the most bits, within a file of `size`, such as "4.5GB", or within `bits` per weight.

    Raises:
        OptionError: an option has an invalid value.
        ModelFileError: `source` is an incomplete GGUF file, or has NaN or Inf, or `imatrix` does not fit it.
        UnsupportedModelError: this version cannot quantize the model, or `requantize` is missing.
        EdgeLLMError: `out` cannot be written.
    """
    conversion = prepare_quantize(
        source,
        out,
        type,
        tensor_types=tensor_types,
        force=force,
        requantize=requantize,
        imatrix=imatrix,
        gptq=gptq,
        size=size,
        bits=bits,
        calibration=calibration,
        threads=threads,
    )
    return conversion.run(progress)


def prepare_quantize(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = "Q4_K_M",
    *,
    tensor_types: Sequence[str] = (),
    force: bool = False,
    requantize: bool = False,
    imatrix: str | os.PathLike[str] | None = None,
    gptq: str | os.PathLike[str] | None = None,
    size: str | None = None,
    bits: float | None = None,
    calibration: str | None = None,
    threads: int | None = None,
    calibration_name: str = "the text for --calibration",
    measuring: Progress | None = None,
    compile_progress: Progress | None = None,
) -> Conversion:
    """Check everything that `quantize` needs, reading no weights; arguments and errors are those of `quantize`.

    The type "dynamic" alone reads them: types are chosen here, and `measuring` is called with (tensors measured, all),
    `compile_progress` with (kernels compiled, all). Errors call the text `calibration` by `calibration_name`.
    """
    dynamic = dynamic_settings(type, size, bits, calibration, measuring, compile_progress)
    mix = BASE_MIX if dynamic else mix_name(type)
    overrides = [parse_override(text) for text in tensor_types]
    sigbus.install()
    importance = None if imatrix is None else read_imatrix(imatrix)
    text = None if gptq is None else read_calibration(gptq, lambda compiling: nullcontext(Path(source)))
    seconds = 0.0
    with GGUFFile.open(Path(source)) as file:
        if not file.tensors:
            file.fail("holds a vocabulary alone, no weights to quantize; give the whole model")
        tensors = assign_types(gguf_sources(file), mix, file.architecture, overrides, importance is not None)
        target = check_target(out, [*file.paths, imatrix, gptq], force=force)
        _check_floats(file, tensors, free_tensors(file, tensors, overrides) if dynamic else (), requantize)
        pairs, paths, model = raw_pairs(file.path), file.paths, find_loadable(file)
        if dynamic:
            if model:
                check_length(dynamic.text, calibration_name, model)
            _check_before_measuring(tensors, importance, text, model)
            since = monotonic()
            tensors = dynamic_tensors(file, pairs, tensors, overrides, importance, dynamic, threads)
            mix, seconds = nearest_mix(tensors), monotonic() - since
        _warn_if_unchanged(file, tensors)
        source_name = shown_path(file.path) if model else None
    conversion = prepare(
        pairs,
        tensors,
        mix,
        target=target,
        source_files=paths,
        source_name=source_name,
        threads=threads,
        imatrix=importance,
        gptq=text,
    )
    return replace(conversion, measuring_seconds=seconds)


def _check_before_measuring(
    tensors: Sequence[PlannedTensor], imatrix: Imatrix | None, text: Calibration | None, model: LoadableModel | None
) -> None:
    """Raise EdgeLLMError for what `prepare` would find only after tensors are measured, which takes long."""
    if text and model:
        text.check(model)
    if imatrix or not text:
        check_needed_importance(with_importance(tensors, imatrix) if imatrix else tensors, imatrix)


def _check_floats(
    file: GGUFFile, tensors: Sequence[PlannedTensor], free: Sequence[PlannedTensor], requantize: bool
) -> None:
    """Quantizing quantized tensors again loses precision: refuse it without `requantize`, else warn.

    The types of `free` are not chosen yet.
    """
    quantized = [t for t in tensors if t.source.type not in (*FLOAT_FORMATS, *NUMBERS)]
    changing = {t.source.name for t in free}
    again = [t for t in quantized if t.source.name in changing or t.source.type != t.type.name]
    if not again:
        return
    name, first = shown_path(file.path), again[0]
    what = f"{len(again)} tensors are quantized already, such as {printable(first.source.name)} ({first.source.type})"
    if not requantize:
        better = "start from an F16, BF16 or F32 file, or allow the loss with --requantize"
        raise UnsupportedModelError(f"{name}: {what}; {better}")
    warnings.warn(f"{name}: {what}; the new file is worse than one from floats would be", EdgeLLMWarning, stacklevel=4)


def _warn_if_unchanged(file: GGUFFile, tensors: Sequence[PlannedTensor]) -> None:
    """Warn if the new file would hold the same weights; joining several parts is a reason to write it."""
    if len(file.paths) == 1 and all(t.source.type == t.type.name for t in tensors):
        same = "every tensor has the type asked for already; the new file holds the same weights"
        warnings.warn(f"{shown_path(file.path)}: {same}", EdgeLLMWarning, stacklevel=4)
