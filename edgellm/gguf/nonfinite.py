"""Looking for NaN and Inf in weights and block scales."""

from collections.abc import Iterator
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
"""A float is NaN or Inf when all bits of its exponent are set: unsigned type of its width, and those bits."""

# Of 1 MiB: the slab and what is computed from it stay in the cache.
_SLAB = 1 << 20


class NonFinite(NamedTuple):
    """What is wrong in a tensor: how many weights or blocks, and the first one's row and byte in the file."""

    bad: int
    row: int
    byte: int


def find_nonfinite(tensor: Tensor) -> NonFinite | None:
    """The NaN and Inf among a tensor's floats, or its blocks' float16 scales; None when there are none.

    Types with other scales (Q8_K, IQ1_M, MXFP4, NVFP4) and integers have nothing to look at.
    """
    bad, first = 0, -1
    for start, flags in _slabs(tensor):
        if flags.any():
            first = start + int(flags.argmax()) if first < 0 else first
            bad += int(np.count_nonzero(flags))
    if not bad:
        return None
    blocks_per_row = tensor.shape[-1] // tensor.type.block
    return NonFinite(bad, first // blocks_per_row, tensor.offset + first * tensor.type.nbytes)


def _slabs(tensor: Tensor) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """(first block, flag of each block that is bad) for every slab of the tensor."""
    mask, layout = _exponents(tensor.type)
    blocks_per_slab = max(1, _SLAB // tensor.type.nbytes)
    blocks = tensor.data.view(layout)
    for start in range(0, len(blocks), blocks_per_slab):
        slab = blocks[start : start + blocks_per_slab]
        flags = [slab[field] & mask == mask for field in layout.names or ()]
        if flags:
            yield start, np.logical_or.reduce(flags)


def _exponents(kind: GGMLType) -> tuple[int, np.dtype[np.void]]:
    """The exponent bits, and a block as a record whose fields are the numbers that have them."""
    number, mask = FLOATS.get(kind.name, _HALF)
    offsets = (0,) if kind.name in FLOATS else kind.scales
    return mask, np.dtype(
        {
            "names": [str(offset) for offset in offsets],
            "formats": [number] * len(offsets),
            "offsets": list(offsets),
            "itemsize": kind.nbytes,
        }
    )
