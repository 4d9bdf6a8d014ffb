"""References to a repository: `ORG/NAME`, `ORG/NAME:QUANT`, or the address of its page."""

import re
from dataclasses import dataclass

NO_REPOSITORY = "which is no ORG/NAME of letters, digits, `_`, `.` and `-` that begins with a letter or digit"
"""Why `is_repository` refuses a name; words that follow a comma."""

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_-])?"
_REPOSITORY = re.compile(f"{_PART}/{_PART}", re.ASCII)
_ADDRESS = re.compile(r"(?:https?://)?(?:huggingface\.co|hf\.co)/")


@dataclass(frozen=True)
class Reference:
    """A repository, and which of its models: `selector` is a quantization, or a part of a file's name.

    An empty `selector` means the default of `select_gguf`.
    """

    repository: str
    selector: str = ""


def parse_reference(text: str) -> Reference | None:
    """The reference in `text`; None if it names no repository."""
    repository, colon, selector = _ADDRESS.sub("", text, count=1).removesuffix("/").partition(":")
    if not is_repository(repository) or (colon and not selector):
        return None
    return Reference(repository, selector)


def is_repository(name: str) -> bool:
    """Whether `name` is ORG/NAME of characters that are safe in names of folders and on a command line."""
    return bool(_REPOSITORY.fullmatch(name))
