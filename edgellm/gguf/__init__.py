"""Floor 2: GGUF files, read through a memory map and trusted in nothing.

The public names load on first use: `printable` is for everybody's messages, and must not bring numpy along.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgellm.gguf.file import GGUFFile
    from edgellm.gguf.tensors import Tensor
    from edgellm.gguf.values import StringArray

_HOME_OF = {"GGUFFile": "edgellm.gguf.file", "StringArray": "edgellm.gguf.values", "Tensor": "edgellm.gguf.tensors"}

__all__ = ["GGUFFile", "StringArray", "Tensor"]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'edgellm.gguf' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
