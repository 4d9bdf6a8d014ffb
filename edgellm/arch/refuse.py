"""Saying no to a file that is whole, but asks for what edgellm does not have."""

from typing import NoReturn

from edgellm.errors import UnsupportedModelError
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile


def refuse(file: GGUFFile, problem: str) -> NoReturn:
    """Raise UnsupportedModelError with the file's name before `problem`."""
    raise UnsupportedModelError(f"{printable(str(file.path), 400)}: {problem}")
