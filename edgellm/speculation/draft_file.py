"""The file of a draft model: opened and checked against the model that it drafts for, before anything is loaded."""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.errors import NoMemoryError, UnsupportedModelError
from edgellm.fmt import shown_path, size
from edgellm.gguf import GGUFFile
from edgellm.speculation.draft_sizes import active_bytes
from edgellm.speculation.vocabularies import TokenMap, VocabularyPair
from edgellm.system.machine import available_memory
from edgellm.text.tokenizer import Tokenizer


class DraftTarget(NamedTuple):
    """The model that is drafted for. `pre` is the pre-tokenizer that the user chose for it, None for the file's own."""

    file: GGUFFile
    model: Description
    tokenizer: Tokenizer
    pre: str | None = None

    @property
    def name(self) -> str:
        """The path of its file, for messages."""
        return shown_path(self.file.path)

    def tokens_of(self, file: GGUFFile, vocab: int) -> TokenMap:
        """The `vocab` tokens of a file as those of this model. Raises UnsupportedModelError if they are not alike."""
        same_kind = file.hint("tokenizer.ggml.model", str) == self.tokenizer.kind
        tokenizer = Tokenizer(file, self.pre if same_kind else None)
        pair = VocabularyPair(self.tokenizer, tokenizer, (self.model.vocab, vocab))
        return pair.map((self.name, shown_path(file.path)))


@dataclass(frozen=True)
class OpenFile:
    """An open file, of which descriptions have tensors. A context manager that closes it."""

    file: GGUFFile

    @property
    def name(self) -> str:
        """Its path, for messages."""
        return shown_path(self.file.path)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class DraftFile(OpenFile):
    """The open file of a draft model, and its tokens as those of the target."""

    model: Description
    tokens: TokenMap

    @classmethod
    def open(cls, path: Path, target: DraftTarget) -> Self:
        """Open a file, of which only the header is read.

        Raises ModelFileError, UnsupportedModelError for a model that edgellm's own engine does not run, whose tokens
        are not those of the target, or which is larger than that.
        """
        file = GGUFFile.open(path)
        try:
            model = describe(file)
            _check_smaller(shown_path(path), model, target.model)
            return cls(file, model, target.tokens_of(file, model.vocab))
        except BaseException:
            file.close()
            raise

    def check_memory(self, target_bytes: int) -> None:
        """Raise NoMemoryError unless its weights fit in memory beside `target_bytes` of the target's."""
        free = available_memory()
        if self.file.nbytes + target_bytes > free:
            both = f"{size(self.file.nbytes)} beside the {size(target_bytes)} of the model"
            problem = f"no memory for the draft model {self.name}, which has {both}, as {size(free)} are free"
            raise NoMemoryError(f"{problem}; choose a smaller one, or leave --draft out")


def _check_smaller(name: str, draft: Description, target: Description) -> None:
    """Raise UnsupportedModelError if a draft takes longer than a step of the target, so that it cannot pay."""
    own, other = active_bytes(draft), active_bytes(target)
    if own > other:
        reads = f"it reads {size(own)} of weights for each draft, and the model itself {size(other)} for a token"
        raise UnsupportedModelError(f"{name} is too large for a draft model: {reads}; choose a smaller one")
