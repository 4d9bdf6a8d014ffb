"""The head that option `draft` asks for: of a file of its own, or that of the model's file."""

import warnings
from typing import NamedTuple

from edgellm.arch import describe_head
from edgellm.arch.head import Head
from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.models import resolve
from edgellm.speculation.auto_draft import open_draft
from edgellm.speculation.draft_file import DraftFile, DraftTarget
from edgellm.speculation.head_file import HeadFile, is_head_file


class ChosenHead(NamedTuple):
    """A head, its name for messages, and the open file that it is in, unless that is the target's."""

    head: Head
    name: str
    file: HeadFile | None = None

    def close(self) -> None:
        """Close its file."""
        if self.file:
            self.file.close()


def open_head(choice: str | None, target: DraftTarget) -> ChosenHead | None:
    """The head that `choice` names, or with `auto` that of the target's file; None if it asks for none of these.

    Raises the errors of `HeadFile.open`, and ModelFileError for a name of no model. If the target's file has a head
    that cannot be computed, a warning says why.
    """
    if choice in (None, "off"):
        return None
    if choice == "auto":
        return _own_head(target)
    path = resolve(choice)
    if not is_head_file(path):
        return None
    file = HeadFile.open(path, target)
    return ChosenHead(file.head, file.name, file)


def open_in_place_of(chosen: ChosenHead, choice: str | None, target: DraftTarget, why: str) -> DraftFile | None:
    """What drafts where a head does not, for the reason `why`: with `auto` a draft model, else nothing.

    A warning says that the head does not draft. Raises the errors of `open_draft`.
    """
    warnings.warn(f"{chosen.name}: {why}", EdgeLLMWarning, stacklevel=2)
    return open_draft(choice, target) if choice == "auto" else None


def _own_head(target: DraftTarget) -> ChosenHead | None:
    try:
        head = describe_head(target.file, target.model)
    except EdgeLLMError as error:
        warnings.warn(f"a layer for multi-token prediction cannot draft: {error}", EdgeLLMWarning, stacklevel=2)
        return None
    return ChosenHead(head, f"multi-token prediction of {target.name}") if head else None
