"""The logits of a text as bits."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

IDS = [1, *map(int, np.random.default_rng(2).integers(3, 320, 149))]

Bits = NDArray[np.uint32]


def logits_bits(path: Path, threads: int, chunk: int | None, kv_type: str = "f16") -> Bits:
    """The logits of IDS as bit patterns, (n, vocab) uint32."""
    from edgellm import Model

    with Model.open(path, threads=threads, ctx=256, kv_type=kv_type) as model:
        logits: NDArray[np.float32] = model.logits(IDS, chunk=chunk)
    assert logits.dtype == np.float32
    return logits.view(np.uint32)
