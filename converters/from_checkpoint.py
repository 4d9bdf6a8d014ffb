"""Hugging Face checkpoints to GGUF."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict, overload

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.conversion import Conversion, prepare
from converters.gptq.compensation import read_calibration
from converters.header import encode_pairs
from converters.hub_checkpoint import local_folder
from converters.quant_mixes import assign_types, mix_name, parse_override
from converters.quant_mixes.stored_blocks import with_stored_blocks
from converters.quantization_note import quantization_note
from converters.report import ConversionPlan, Report
from converters.streaming import Progress
from converters.target import check_disk_space, check_target
from converters.vocabulary import vocabulary
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.gguf.imatrix import read_imatrix


@overload
def convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = ...,
    *,
    tensor_types: Sequence[str] = ...,
    force: bool = ...,
    dry_run: Literal[False] = ...,
    imatrix: str | os.PathLike[str] | None = ...,
    gptq: str | os.PathLike[str] | None = ...,
    threads: int | None = ...,
    progress: Progress | None = ...,
) -> Report: ...


@overload
def convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = ...,
    *,
    tensor_types: Sequence[str] = ...,
    force: bool = ...,
    dry_run: Literal[True],
    imatrix: str | os.PathLike[str] | None = ...,
    gptq: str | os.PathLike[str] | None = ...,
    threads: int | None = ...,
    progress: Progress | None = ...,
) -> ConversionPlan: ...


def convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = "Q4_K_M",
    *,
    tensor_types: Sequence[str] = (),
    force: bool = False,
    dry_run: bool = False,
    imatrix: str | os.PathLike[str] | None = None,
    gptq: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report | ConversionPlan:
    """Convert the checkpoint `source` to the GGUF file `out` with the quantization mix `type`, as `edgellm convert`.

    `source` is a folder, or ORG/NAME on Hugging Face, which is downloaded first and kept. `tensor_types` are
    exceptions such as "ffn_down=Q6_K"; `force` replaces an existing file; `dry_run` writes nothing and returns the
    plan; `imatrix` is the file of an importance matrix, `gptq` a text by which errors are compensated (see
    `converters.quantize`): the model that reads it is written beside `out`, as F16 or BF16, and removed at the end;
    `progress` is called with (weights written, all weights).

    Raises:
        OptionError: an option has an invalid value.
        ModelFileError: `source` is an incomplete or inconsistent checkpoint, or has NaN or Inf, or `imatrix` does not
            fit it.
        UnsupportedModelError: this version cannot convert the model.
        EdgeLLMError: `out` cannot be written.
    """
    folder, replace = local_folder(source), force or dry_run
    conversion = prepare_convert(
        folder, out, type, tensor_types=tensor_types, force=replace, imatrix=imatrix, gptq=gptq, threads=threads
    )
    return conversion.plan() if dry_run else conversion.run(progress)


def prepare_convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = "Q4_K_M",
    *,
    tensor_types: Sequence[str] = (),
    force: bool = False,
    imatrix: str | os.PathLike[str] | None = None,
    gptq: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    floats_progress: Progress | None = None,
) -> Conversion:
    """Check everything that `convert` needs, reading no weights; arguments and errors are those of `convert`.

    `floats_progress` is called with (weights written, all) while the model that reads the text of `gptq` is written.
    """
    mix, overrides = mix_name(type), [parse_override(text) for text in tensor_types]
    importance = None if imatrix is None else read_imatrix(imatrix)
    checkpoint = Checkpoint.open(_folder(source))
    # GGUF files in the checkpoint's folder may be replaced.
    own = [file for file in checkpoint.path.iterdir() if file.suffix.lower() != ".gguf"]
    target = check_target(out, [*own, imatrix, gptq], force=force)
    metadata, sources = describe(checkpoint)
    architecture = str(metadata["general.architecture"].value)
    stored = with_stored_blocks(sources, architecture, overrides)
    tensors = assign_types(stored, mix, architecture, overrides, importance is not None)
    tokens = next((s.row_count for s in sources if s.name == "token_embd.weight"), None)
    pairs = encode_pairs({**metadata, **vocabulary(checkpoint, tokens)})
    files: _Files = {"source_files": checkpoint.weights, "source_name": printable(str(checkpoint.path), 400)}
    floats = text = None
    if gptq is not None:
        float_mix = "BF16" if any(source.type == "BF16" for source in sources) else "F16"
        beside = target.with_name(f".{target.name}.{float_mix}.gguf")
        of_floats = assign_types(sources, float_mix, architecture, [])
        floats = prepare(pairs, of_floats, float_mix, target=beside, **files, threads=threads)
        text = read_calibration(gptq, partial(_while_there, floats, floats_progress))
    conversion = prepare(
        pairs,
        tensors,
        mix,
        target=target,
        **files,
        threads=threads,
        source_note=quantization_note(checkpoint, mix, sources, tensors),
        imatrix=importance,
        gptq=text,
    )
    if floats:
        check_disk_space(target, floats.layout.nbytes + conversion.layout.nbytes)
    return conversion


class _Files(TypedDict):
    source_files: Sequence[Path]
    source_name: str


@contextmanager
def _while_there(
    conversion: Conversion, progress: Progress | None, compile_progress: Progress | None
) -> Iterator[Path]:
    """Write a file, which is removed at the end of the block."""
    try:
        conversion.run(progress, compile_progress)
        yield conversion.target
    finally:
        conversion.target.unlink(missing_ok=True)


def _folder(source: str | os.PathLike[str]) -> Path:
    if not os.fspath(source):
        raise OptionError("the checkpoint has an empty name; give a folder, or ORG/NAME on Hugging Face")
    return Path(source)
