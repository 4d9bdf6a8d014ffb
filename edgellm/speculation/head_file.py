"""The file of a draft head: opened and checked against the model that it drafts for, before anything is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from edgellm.arch.head import Head
from edgellm.arch.head_files import HEAD_FILES, read_head
from edgellm.errors import UnsupportedModelError
from edgellm.fmt import shown_path
from edgellm.gguf import GGUFFile
from edgellm.speculation.draft_file import DraftTarget, OpenFile


@dataclass(frozen=True)
class HeadFile(OpenFile):
    """The open file of a draft head. `head` may have tensors of the target's, too."""

    head: Head

    @classmethod
    def open(cls, path: Path, target: DraftTarget) -> Self:
        """Open a file, of which only the header and the ids of drafted tokens are read.

        Raises ModelFileError for a damaged file and one for another target, UnsupportedModelError for a head that
        edgellm does not compute, or whose tokens are not those of the target.
        """
        file = GGUFFile.open(path)
        try:
            head = read_head(file, target.model)
            _check_tokens(file, target)
            return cls(file, head)
        except BaseException:
            file.close()
            raise


def is_head_file(path: Path) -> bool:
    """Whether a file is that of a draft head. Raises ModelFileError, UnsupportedModelError for an importance matrix."""
    with GGUFFile.open(path) as file:
        return file.architecture in HEAD_FILES


def _check_tokens(file: GGUFFile, target: DraftTarget) -> None:
    """Refuse a head whose ids mean other tokens than those of the target: it was trained for another model."""
    if "tokenizer.ggml.tokens" not in file.metadata:
        return
    if target.tokens_of(file, target.model.vocab).kind != "same":
        name = shown_path(file.path)
        raise UnsupportedModelError(
            f"{name} is a head for a model with other tokens than {target.name}; choose a head that was made for it"
        )
