"""Hugging Face checkpoints to GGUF."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict, overload

from converters.architectures import describe
from converters.architectures.draft_heads import describe_head
from converters.checkpoint import Checkpoint
from converters.conversion import Conversion, prepare
from converters.gptq.compensation import read_calibration
from converters.head_target import HeadTarget, head_target
from converters.header import EncodedMetadata, encode_pairs
from converters.hub_checkpoint import local_folder
from converters.loadable import check_loadable_head
from converters.quant_mixes import assign_types, mix_name, parse_override
from converters.quant_mixes.stored_blocks import with_stored_blocks
from converters.quantization_note import quantization_note
from converters.report import ConversionPlan, Report
from converters.streaming import Progress
from converters.target import check_disk_space, check_target
from converters.tensors import Metadata, Source
from converters.vocabulary import vocabulary
from edgellm.errors import OptionError
from edgellm.fmt import shown_path
from edgellm.gguf.imatrix import read_imatrix


@overload
def convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = ...,
    *,
    target: str | os.PathLike[str] | None = ...,
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
    target: str | os.PathLike[str] | None = ...,
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
    target: str | os.PathLike[str] | None = None,
    tensor_types: Sequence[str] = (),
    force: bool = False,
    dry_run: bool = False,
    imatrix: str | os.PathLike[str] | None = None,
    gptq: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report | ConversionPlan:
    """Convert the checkpoint `source` to the GGUF file `out` with the quantization mix `type`, as `edgellm convert`.

    `source` is a folder, or ORG/NAME on Hugging Face, which is downloaded first and kept. If it is a draft head,
    `target` is the model that it drafts for, a checkpoint's folder or a GGUF file. `tensor_types` are
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
    folder, replace = local_folder(source, target is not None), force or dry_run
    conversion = prepare_convert(
        folder,
        out,
        type,
        target=target,
        tensor_types=tensor_types,
        force=replace,
        imatrix=imatrix,
        gptq=gptq,
        threads=threads,
    )
    return conversion.plan() if dry_run else conversion.run(progress)


def prepare_convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str = "Q4_K_M",
    *,
    target: str | os.PathLike[str] | None = None,
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
    drafts_for = head_target(checkpoint, target, gptq)
    # GGUF files in the checkpoint's folder may be replaced.
    own = [file for file in checkpoint.path.iterdir() if file.suffix.lower() != ".gguf"]
    new_file = check_target(out, [*own, *(drafts_for.files if drafts_for else ()), imatrix, gptq], force=force)
    metadata, sources = _described(checkpoint, drafts_for)
    architecture = str(metadata["general.architecture"].value)
    stored = with_stored_blocks(sources, architecture, overrides)
    tensors = assign_types(stored, mix, architecture, overrides, importance is not None)
    pairs = {**encode_pairs(metadata), **_vocabulary(checkpoint, sources, drafts_for)}
    name = shown_path(checkpoint.path)
    files: _Files = {"source_files": checkpoint.weights, "source_name": None if drafts_for else name}
    floats = text = None
    if gptq is not None:
        float_mix = "BF16" if any(source.type == "BF16" for source in sources) else "F16"
        beside = new_file.with_name(f".{new_file.name}.{float_mix}.gguf")
        of_floats = assign_types(sources, float_mix, architecture, [])
        floats = prepare(pairs, of_floats, float_mix, target=beside, **files, threads=threads)
        text = read_calibration(gptq, partial(_while_there, floats, floats_progress))
    conversion = prepare(
        pairs,
        tensors,
        mix,
        target=new_file,
        **files,
        threads=threads,
        source_note=quantization_note(checkpoint, mix, sources, tensors),
        imatrix=importance,
        gptq=text,
    )
    if drafts_for:
        check_loadable_head(conversion.layout, conversion.tensors, new_file, name, drafts_for.description)
    if floats:
        check_disk_space(new_file, floats.layout.nbytes + conversion.layout.nbytes)
    return conversion


def _described(checkpoint: Checkpoint, drafts_for: HeadTarget | None) -> tuple[Metadata, list[Source]]:
    """The metadata without the vocabulary, and the tensors."""
    return describe_head(checkpoint, drafts_for.description) if drafts_for else describe(checkpoint)


def _vocabulary(checkpoint: Checkpoint, sources: Sequence[Source], drafts_for: HeadTarget | None) -> EncodedMetadata:
    """The vocabulary of a model, or of the target of a head."""
    if drafts_for:
        return drafts_for.vocabulary
    tokens = next((s.row_count for s in sources if s.name == "token_embd.weight"), None)
    return encode_pairs(vocabulary(checkpoint, tokens))


class _Files(TypedDict):
    source_files: Sequence[Path]
    source_name: str | None


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
