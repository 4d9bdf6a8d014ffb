"""A GGUF file that is not written yet, read from its header: errors are found before the weights are converted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from edgellm.gguf.file import GGUFFile
from edgellm.gguf.part import read_header
from edgellm.gguf.reader import HeaderReader


class HeaderOnlyFile(GGUFFile):
    """The file of `nbytes` that will be written at `path` with this `header`; its weights are zeros without memory.

    `known` has the bytes of the tensors whose values matter. Raises ModelFileError for an invalid header.
    """

    def __init__(self, header: bytes, nbytes: int, path: Path, known: Mapping[str, NDArray[np.uint8]]) -> None:
        self._parts = []
        self.path, self.paths, self.nbytes = path, (path,), nbytes
        nothing = np.broadcast_to(np.uint8(0), (nbytes,))
        self.version, metadata, self.tensors = read_header(HeaderReader(memoryview(header), path), nothing)
        self.metadata = MappingProxyType(metadata)
        self.tensors |= {name: replace(self.tensors[name], data=data) for name, data in known.items()}
