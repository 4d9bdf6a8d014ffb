"""The model that a draft head is for: its sizes and its vocabulary, which the head's file needs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from converters.architectures import describe as describe_checkpoint
from converters.architectures.config import Config
from converters.architectures.draft_heads import HeadKind, head_kind
from converters.checkpoint import Checkpoint
from converters.gguf_source import raw_pairs
from converters.header import EncodedMetadata, encode_pairs, layout_file
from converters.loadable import check_loadable
from converters.quant_mixes import assign_types
from converters.vocabulary import vocabulary
from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.errors import OptionError
from edgellm.fmt import shown_path
from edgellm.gguf import GGUFFile
from edgellm.models import resolve


class HeadTarget(NamedTuple):
    """The target of a draft head, in `files`. The tensors of `description` have no data.

    `vocabulary` are the keys `tokenizer.*`.
    """

    description: Description
    vocabulary: EncodedMetadata
    files: Sequence[Path]


def head_target(
    checkpoint: Checkpoint, target: str | os.PathLike[str] | None, gptq: str | os.PathLike[str] | None
) -> HeadTarget | None:
    """The model `target`, for which the checkpoint is a draft head; None for a whole model, which has no target.

    Raises OptionError where the options are not those of the checkpoint's kind, and the errors of `read_target`.
    """
    name = shown_path(checkpoint.path)
    config = Config(checkpoint.path / "config.json", checkpoint.config)
    kind = kind_with_target(config, name, target is not None)
    if not kind or target is None:
        return None
    if gptq is not None:
        raise OptionError(f"--gptq has the model read a text, and {name} is a draft head; leave it out")
    return read_target(target)


def kind_with_target(config: Config, name: str, has_target: bool) -> HeadKind | None:
    """The kind of the draft head in the checkpoint `name`, which must have a target; None for a whole model.

    Raises OptionError for a head without a target, and for a whole model with one.
    """
    kind = head_kind(config)
    if kind and not has_target:
        raise OptionError(f"{name} is {kind.name}, which drafts for another model: name that with --target")
    if has_target and not kind:
        raise OptionError(f"--target is for draft heads, and {name} is a whole model; leave it out")
    return kind


def read_target(name: str | os.PathLike[str]) -> HeadTarget:
    """The target: a checkpoint's folder, a GGUF file, or a name that the commands take as MODEL; only headers are read.

    Raises ModelFileError and UnsupportedModelError.
    """
    if os.fspath(name) and Path(name).is_dir():
        return _of_checkpoint(Path(name))
    path = resolve(name) if isinstance(name, str) else Path(name)
    with GGUFFile.open(path) as file:
        description = describe(file)
        files = file.paths
    pairs = {key: value for key, value in raw_pairs(path).items() if key.startswith("tokenizer.")}
    return HeadTarget(description, pairs, files)


def _of_checkpoint(folder: Path) -> HeadTarget:
    """That of a checkpoint, as the GGUF file that it would become describes it."""
    checkpoint = Checkpoint.open(folder)
    metadata, sources = describe_checkpoint(checkpoint)
    rows = next((source.row_count for source in sources if source.name == "token_embd.weight"), None)
    pairs = encode_pairs(vocabulary(checkpoint, rows))
    tensors = assign_types(sources, "F16", str(metadata["general.architecture"].value))
    layout = layout_file({**encode_pairs(metadata), **pairs}, tensors)
    model = check_loadable(layout, tensors, folder, shown_path(folder))
    return HeadTarget(model.description, pairs, checkpoint.weights)
