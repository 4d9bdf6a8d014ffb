"""A GGUF file in parts: its pairs and tensors by name, to be changed and put together again."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader

from support.gguf_bytes import RawGGUF, RawTensor

_ALIGNMENT = 32


@dataclass(frozen=True)
class GGUFParts:
    """`pairs` are the bytes of each key with its value; `tensors` have no offsets yet."""

    pairs: dict[str, bytes]
    tensors: dict[str, RawTensor]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The parts of a file."""
        reader = GGUFReader(path)
        content = path.read_bytes()
        pairs = {}
        for name, field in reader.fields.items():
            if not name.startswith("GGUF."):
                pairs[name] = content[field.offset : field.offset + sum(part.nbytes for part in field.parts)]
        tensors = {
            t.name: RawTensor(t.name, tuple(t.shape.tolist()), t.tensor_type.value, 0, t.data.tobytes())
            for t in reader.tensors
        }
        return cls(pairs, tensors)

    def build(self) -> bytes:
        """The file, tensors one after the other."""
        placed, offset = [], 0
        for tensor in self.tensors.values():
            placed.append(replace(tensor, offset=offset))
            offset += -(-len(tensor.data) // _ALIGNMENT) * _ALIGNMENT
        return RawGGUF(tuple(self.pairs.values()), tuple(placed), alignment=_ALIGNMENT).build()

    def as_f32(self) -> Self:
        """The same with all weights as float32."""
        return replace(self, tensors={name: _as_f32(tensor) for name, tensor in self.tensors.items()})


def _as_f32(tensor: RawTensor) -> RawTensor:
    rows = np.frombuffer(tensor.data, np.uint8).reshape(*tensor.dims[:0:-1], -1)
    values = gguf.quants.dequantize(rows, Type(tensor.kind)) if tensor.kind != Type.F32 else rows
    return replace(tensor, kind=Type.F32.value, data=values.tobytes())
