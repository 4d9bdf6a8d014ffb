"""Draft heads: the kinds that can be converted, told by config.json."""

from collections.abc import Callable
from typing import NamedTuple

from converters.architectures import eagle3, gemma4_assistant
from converters.architectures.config import Config
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata, Source
from edgellm.arch.description import Description
from edgellm.arch.eagle3 import ARCHITECTURE as EAGLE3
from edgellm.arch.gemma4_assistant import ARCHITECTURE as ASSISTANT
from edgellm.gguf.auxiliary import auxiliary_kind


class HeadKind(NamedTuple):
    """A kind of head: its name for messages, with an article, and what its checkpoints are told and read by.

    `check` refuses heads that edgellm does not compute, by config.json alone. `describe` gives the metadata without
    the vocabulary, and the tensors, both in the order of llama.cpp's converter. Both raise UnsupportedModelError, and
    ModelFileError where the files contradict each other, or the description of the target.
    """

    name: str
    is_kind: Callable[[Config], bool]
    check: Callable[[Config], None]
    describe: Callable[[Checkpoint, Description], tuple[Metadata, list[Source]]]


def _name(architecture: str) -> str:
    kind = auxiliary_kind({"general.architecture": architecture})
    assert kind, architecture
    return kind.name


_KINDS = (
    HeadKind(_name(EAGLE3), eagle3.is_eagle3, eagle3.check_kind, eagle3.describe_eagle3),
    HeadKind(
        _name(ASSISTANT),
        gemma4_assistant.is_assistant,
        gemma4_assistant.check_kind,
        gemma4_assistant.describe_assistant,
    ),
)


def head_kind(config: Config) -> HeadKind | None:
    """The kind of head of a checkpoint; None for a whole model."""
    return next((kind for kind in _KINDS if kind.is_kind(config)), None)


def describe_head(checkpoint: Checkpoint, target: Description) -> tuple[Metadata, list[Source]]:
    """The metadata and the tensors of a checkpoint that is a head; see `HeadKind`."""
    kind = head_kind(Config(checkpoint.path / "config.json", checkpoint.config))
    assert kind, "the checkpoint is a whole model"
    return kind.describe(checkpoint, target)
