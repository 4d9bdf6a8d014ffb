"""Refusing a sound file that asks for something edgellm does not support."""

from typing import NoReturn

from edgellm.errors import UnsupportedModelError
from edgellm.fmt import shown_path
from edgellm.gguf import GGUFFile


def refuse(file: GGUFFile, problem: str) -> NoReturn:
    """Raise UnsupportedModelError with the file's name before `problem`."""
    raise UnsupportedModelError(f"{shown_path(file.path)}: {problem}")
