"""A GGUF file that is not written yet, read as if it were: what would be refused is known before it takes any time."""

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
    """What a file of `nbytes` at `path` will be by its `header`; its weights are zeros that take no memory.

    `known` are the bytes of tensors whose numbers matter. Raises ModelFileError for a header that no reader takes.
    """

    def __init__(self, header: bytes, nbytes: int, path: Path, known: Mapping[str, NDArray[np.uint8]]) -> None:
        self._parts = []
        self.path, self.paths, self.nbytes = path, (path,), nbytes
        nothing = np.broadcast_to(np.uint8(0), (nbytes,))
        self.version, metadata, self.tensors = read_header(HeaderReader(memoryview(header), path), nothing)
        self.metadata = MappingProxyType(metadata)
        self.tensors |= {name: replace(self.tensors[name], data=data) for name, data in known.items()}
