"""Hugging Face checkpoints to GGUF."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, overload

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.conversion import Conversion, prepare
from converters.header import encode_pairs
from converters.hub_checkpoint import local_folder
from converters.quant_mixes import assign_types, mix_name, parse_override
from converters.quantization_note import quantization_note
from converters.report import ConversionPlan, Report
from converters.streaming import Progress
from converters.target import check_target
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
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report | ConversionPlan:
    """Convert the checkpoint `source` to the GGUF file `out` with the quantization mix `type`, as `edgellm convert`.

    `source` is a folder, or ORG/NAME on Hugging Face, which is downloaded first and kept. `tensor_types` are
    exceptions such as "ffn_down=Q6_K"; `force` replaces an existing file; `dry_run` writes nothing and returns the
    plan; `imatrix` is the file of an importance matrix (see `converters.quantize`); `progress` is called with (weights
    written, all weights).

    Raises:
        OptionError: an option has an invalid value.
        ModelFileError: `source` is an incomplete or inconsistent checkpoint, or has NaN or Inf, or `imatrix` does not
            fit it.
        UnsupportedModelError: this version cannot convert the model.
        EdgeLLMError: `out` cannot be written.
    """
    folder, replace = local_folder(source), force or dry_run
    conversion = prepare_convert(
        folder, out, type, tensor_types=tensor_types, force=replace, imatrix=imatrix, threads=threads
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
    threads: int | None = None,
) -> Conversion:
    """Check everything that `convert` needs, reading no weights; arguments and errors are those of `convert`."""
    mix, overrides = mix_name(type), [parse_override(text) for text in tensor_types]
    importance = None if imatrix is None else read_imatrix(imatrix)
    checkpoint = Checkpoint.open(_folder(source))
    # GGUF files in the checkpoint's folder may be replaced.
    own = [file for file in checkpoint.path.iterdir() if file.suffix.lower() != ".gguf"]
    target = check_target(out, own, force=force)
    metadata, sources = describe(checkpoint)
    architecture = str(metadata["general.architecture"].value)
    tensors = assign_types(sources, mix, architecture, overrides, importance is not None)
    tokens = next((s.row_count for s in sources if s.name == "token_embd.weight"), None)
    pairs = encode_pairs({**metadata, **vocabulary(checkpoint, tokens)})
    name = printable(str(checkpoint.path), 400)
    return prepare(
        pairs,
        tensors,
        mix,
        target=target,
        source_files=checkpoint.weights,
        source_name=name,
        threads=threads,
        source_note=quantization_note(checkpoint, mix, sources, tensors),
        imatrix=importance,
    )


def _folder(source: str | os.PathLike[str]) -> Path:
    if not os.fspath(source):
        raise OptionError("the checkpoint has an empty name; give a folder, or ORG/NAME on Hugging Face")
    return Path(source)
