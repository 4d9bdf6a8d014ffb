"""The draft model that an option names, or with `auto` the best one among the files of this machine."""

import warnings
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from edgellm.arch import describe
from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.gguf import GGUFFile
from edgellm.models import canonical_name, resolve
from edgellm.models.stores import StoredModel, stored_models
from edgellm.speculation.draft_file import DraftFile, DraftTarget
from edgellm.speculation.draft_sizes import active_bytes
from edgellm.system.machine import available_memory

LARGEST, SMALLEST = 1 / 4, 1 / 40
"""Sizes of a draft model relative to the target, in weights read for a token. A larger one seldom pays, at a cost of
more than 0.25 for each draft; a smaller one guesses worse, and its cost is no longer that of its weights."""


class _Candidate(NamedTuple):
    """A model that may draft. The first in order is the best."""

    other_architecture: bool
    too_small: bool
    nbytes: int
    unlike_name: int
    path: Path

    @classmethod
    def of(cls, path: Path, file: GGUFFile, target: DraftTarget, ratio: float, nbytes: int) -> "_Candidate":
        """Of models of the target's architecture the smallest, but the largest of those that are too small."""
        too_small = ratio < SMALLEST
        pairs = zip(path.name.casefold(), target.file.path.name.casefold(), strict=False)
        like = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        other = file.architecture != target.file.architecture
        return cls(other, too_small, -nbytes if too_small else nbytes, -like, path)


def open_draft(choice: str | None, target: DraftTarget) -> DraftFile | None:
    """The open file of the draft model that option `draft` asks for; None without one.

    Raises the errors of `DraftFile.open`, and ModelFileError for a name of no model. A warning says that `auto` found
    none.
    """
    if choice in (None, "off"):
        return None
    if choice != "auto":
        return DraftFile.open(resolve(choice), target)
    if (found := find_draft(target)) is None:
        needs = "has the same tokens, reads at most a quarter of its weights for a token, and fits in memory beside it"
        text = f"{target.name}: no model on this machine can draft for it: none {needs}; it runs without one"
        warnings.warn(text, EdgeLLMWarning, stacklevel=2)
    return found


def find_draft(target: DraftTarget) -> DraftFile | None:
    """The open file of the best draft model on this machine, None if there is none. Only headers are read.

    It has the same vocabulary, reads at most `LARGEST` of the target's weights for a token, and fits in memory beside
    it. What accepts most of its drafts is not known before it ran, so models of the same architecture are preferred,
    and among these the smallest above `SMALLEST`.
    """
    for candidate in sorted(_candidates(target)):
        try:
            found = DraftFile.open(candidate.path, target)
        except EdgeLLMError:
            continue
        if found.tokens.kind == "same":
            return found
        found.close()
    return None


def _candidates(target: DraftTarget) -> Iterator[_Candidate]:
    most, own = active_bytes(target.model), canonical_name(target.file.path)
    room = min(target.file.nbytes, available_memory() - target.file.nbytes)
    for stored in stored_models():
        if canonical_name(stored.path) != own and (candidate := _candidate(stored, target, most, room)):
            yield candidate


def _candidate(stored: StoredModel, target: DraftTarget, most: int, room: int) -> _Candidate | None:
    """A model whose header is as that of a draft model, but for the vocabulary, whose comparison takes longer."""
    try:
        with GGUFFile.open(stored.path) as file:
            if file.nbytes > room or file.hint("tokenizer.ggml.model", str) != target.tokenizer.kind:
                return None
            nbytes = active_bytes(describe(file))
            return _Candidate.of(stored.path, file, target, nbytes / most, nbytes) if nbytes <= LARGEST * most else None
    except EdgeLLMError:
        return None
