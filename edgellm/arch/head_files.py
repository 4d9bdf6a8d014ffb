"""Draft heads in files of their own: the kinds that there are, told by the architecture that a file names."""

from collections.abc import Callable
from typing import NamedTuple

from edgellm.arch import eagle3, gemma4_assistant
from edgellm.arch.description import Description
from edgellm.arch.head import Head
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile


class HeadFileKind(NamedTuple):
    """A kind of head: its name for messages, with an article, and what reads it for a target."""

    name: str
    read: Callable[[GGUFFile, Description], Head]


HEAD_FILES = {
    eagle3.ARCHITECTURE: HeadFileKind("an EAGLE-3 head", eagle3.read_eagle3_head),
    gemma4_assistant.ARCHITECTURE: HeadFileKind("an assistant of Gemma 4", gemma4_assistant.read_assistant_head),
}
"""By architecture."""


def read_head(file: GGUFFile, target: Description) -> Head:
    """The head of a file, completely checked.

    Raises ModelFileError where metadata and tensors contradict each other or the target, and for a file of a model;
    UnsupportedModelError for a kind of head that edgellm does not compute.
    """
    kind = HEAD_FILES.get(file.architecture)
    if kind is None:
        file.fail(f"holds a model of architecture {printable(file.architecture)}, no draft head")
    return kind.read(file, target)
