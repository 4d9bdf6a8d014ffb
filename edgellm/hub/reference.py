"""What a person types for a repository: `ORG/NAME`, `ORG/NAME:QUANT`, or the address of its page."""

import re
from dataclasses import dataclass

NO_REPOSITORY = "which is no ORG/NAME of letters, digits, `_`, `.` and `-` that begins with a letter or digit"
"""What is wrong with a name of a repository that `is_repository` refuses."""

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_-])?"
_REPOSITORY = re.compile(f"{_PART}/{_PART}", re.ASCII)
_ADDRESS = re.compile(r"(?:https?://)?(?:huggingface\.co|hf\.co)/")


@dataclass(frozen=True)
class Reference:
    """A repository, and what is wanted of it: a quantization, or a file's name or a part of it; empty for a default."""

    repository: str
    wanted: str = ""


def parse_reference(text: str) -> Reference | None:
    """What `text` refers to; None if it is the name of no repository."""
    repository, colon, wanted = _ADDRESS.sub("", text, count=1).removesuffix("/").partition(":")
    if not is_repository(repository) or (colon and not wanted):
        return None
    return Reference(repository, wanted)


def is_repository(name: str) -> bool:
    """Whether `name` is ORG/NAME, by characters that are safe as names of folders and on a command line."""
    return bool(_REPOSITORY.fullmatch(name))
