"""GGUF files, read through a memory map. Everything that a file says is checked before it is used.

file            GGUFFile: a model with typed access to its metadata, and its tensors
split, part     the parts of a split model; one file on disk
mapped_file     the memory map; sigbus, sigbus_handler: what happens when a mapped file is cut short
reader          reads a header number by number within bounds; values, tensors: metadata and the tensor table
detect          what a file is that is no GGUF file
auxiliary       files of no model: draft heads, importance matrices and others
check           `edgellm verify`; nonfinite: NaN and Inf in weights
filetypes       the names of `general.file_type`
imatrix         importance matrices, which conversions weight errors with; older_imatrix: their older format
header_only     a file that is not written yet, read from its header

The public names load on first use, so that importing this package does not import numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgellm.gguf.file import GGUFFile
    from edgellm.gguf.tensors import Tensor
    from edgellm.gguf.values import StringArray

_MODULE_OF = {"GGUFFile": "edgellm.gguf.file", "StringArray": "edgellm.gguf.values", "Tensor": "edgellm.gguf.tensors"}

__all__ = ["GGUFFile", "StringArray", "Tensor"]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'edgellm.gguf' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
