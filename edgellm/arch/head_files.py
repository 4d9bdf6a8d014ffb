"""Draft heads in files of their own: the kinds that there are, told by the architecture that a file names."""

from collections.abc import Callable

from edgellm.arch import eagle3, gemma4_assistant
from edgellm.arch.description import Description
from edgellm.arch.head import Head
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile

HEAD_FILES: dict[str, Callable[[GGUFFile, Description], Head]] = {
    eagle3.ARCHITECTURE: eagle3.read_eagle3_head,
    gemma4_assistant.ARCHITECTURE: gemma4_assistant.read_assistant_head,
}
"""What reads the file of a head for a target, by architecture; `edgellm.gguf.auxiliary` has names for messages."""


def read_head(file: GGUFFile, target: Description) -> Head:
    """The head of a file, completely checked.

    Raises ModelFileError where metadata and tensors contradict each other or the target, and for a file of another
    architecture; UnsupportedModelError for a head of one of these that edgellm does not compute.
    """
    read = HEAD_FILES.get(file.architecture)
    if read is None:
        file.fail(f"has architecture {printable(file.architecture)}, which is no draft head that edgellm computes")
    return read(file, target)
