"""Finds NaN and Inf in weights and block scales."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.gguf.tensors import Tensor
from kquants.ggml import GGMLType

_HALF = (np.uint16, 0x7C00)
FLOATS = {
    "F16": _HALF,
    "BF16": (np.uint16, 0x7F80),
    "F32": (np.uint32, 0x7F80_0000),
    "F64": (np.uint64, 0x7FF0_0000_0000_0000),
}
"""For each float type, the unsigned type of its width and the bits of its exponent.

A float is NaN or Inf if all bits of its exponent are set.
"""

_BYTE_SCALES = {"MXFP4": ((0,), 0xFF), "NVFP4": ((0, 1, 2, 3), 0x7F)}
"""The byte offsets of scales of 8 bits, E8M0 and UE4M3, and the bits that are all set in a NaN."""

_SPLIT_SCALES = {"IQ1_M": {52: 0xC000, 54: 0x7000}}
"""The byte offsets of the 16 bits that have parts of a scale's exponent, and those parts: a float16 in four pieces."""

_CHUNK_BYTES = 1 << 20
"""Bytes of a tensor that are checked at once; the chunk and its flags stay in the cache."""


class NonFinite(NamedTuple):
    """The number of bad weights or blocks of a tensor, and the row and file offset of the first one."""

    bad: int
    row: int
    byte: int


def find_nonfinite(tensor: Tensor) -> NonFinite | None:
    """Count NaN and Inf among the floats of a tensor, or the scales of its blocks; None if there are none.

    Q8_K and integer types are not checked.
    """
    bad, first = 0, -1
    for start, flags in _chunks(tensor):
        if flags.any():
            first = start + int(flags.argmax()) if first < 0 else first
            bad += int(np.count_nonzero(flags))
    if not bad:
        return None
    blocks_per_row = tensor.shape[-1] // tensor.type.block
    return NonFinite(bad, first // blocks_per_row, tensor.offset + first * tensor.type.nbytes)


def _chunks(tensor: Tensor) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """For each chunk of the tensor: the number of its first block, and for each block whether it is bad."""
    masks, layout = _exponents(tensor.type)
    if not layout.names:
        return
    combine = np.logical_and if tensor.type.name in _SPLIT_SCALES else np.logical_or
    blocks_per_chunk = max(1, _CHUNK_BYTES // tensor.type.nbytes)
    blocks = tensor.data.view(layout)
    for start in range(0, len(blocks), blocks_per_chunk):
        chunk = blocks[start : start + blocks_per_chunk]
        flags = [chunk[field] & mask == mask for field, mask in zip(layout.names, masks, strict=True)]
        yield start, combine.reduce(flags)


def _exponents(kind: GGMLType) -> tuple[Collection[int], np.dtype[np.void]]:
    """The bits that are set in NaN and Inf, and a dtype of one block whose fields are the floats to check."""
    number, mask = FLOATS.get(kind.name, _HALF)
    offsets = (0,) if kind.name in FLOATS else kind.scales
    if kind.name in _BYTE_SCALES:
        number, (offsets, mask) = np.uint8, _BYTE_SCALES[kind.name]
    masks = _SPLIT_SCALES.get(kind.name, dict.fromkeys(offsets, mask))
    return masks.values(), np.dtype(
        {
            "names": [str(offset) for offset in masks],
            "formats": [number] * len(masks),
            "offsets": list(masks),
            "itemsize": kind.nbytes,
        }
    )
