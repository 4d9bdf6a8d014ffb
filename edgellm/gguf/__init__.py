"""Floor 2: GGUF files, read through a memory map and trusted in nothing."""

from edgellm.gguf.file import GGUFFile
from edgellm.gguf.tensors import Tensor
from edgellm.gguf.values import Strings

__all__ = ["GGUFFile", "Strings", "Tensor"]
