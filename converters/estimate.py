"""What a conversion will take, before it is done."""

from collections import Counter
from collections.abc import Sequence
from time import perf_counter

import numpy as np
import psutil

from converters.codec import Codec, is_kept
from converters.pipeline import SLAB_WEIGHTS
from converters.tensors import Planned

_COLUMNS = 1 << 12


def memory_needed(tensors: Sequence[Planned], threads: int) -> int:
    """Bytes: what this process has now, and for each thread a slab as it is read, as float32, and as it is written."""
    slab = max((max(SLAB_WEIGHTS, tensor.source.columns) for tensor in tensors), default=0)
    return int(psutil.Process().memory_info().rss) + threads * slab * 3 * 4


def seconds_needed(codec: Codec, tensors: Sequence[Planned], threads: int) -> float:
    """Seconds to encode all tensors, from a slab of noise for each type; reading and writing go on meanwhile."""
    weights: Counter[str] = Counter()
    encoded = [tensor for tensor in tensors if not is_kept(tensor)]
    example = {tensor.type.name: tensor for tensor in encoded}
    for tensor in encoded:
        weights[tensor.type.name] += tensor.source.row_count * tensor.source.columns
    return sum(n * _seconds_per_weight(codec, example[kind]) for kind, n in weights.items()) / threads


def _seconds_per_weight(codec: Codec, tensor: Planned) -> float:
    """The better of two trials: the first one finds nothing in the cache."""
    noise = np.random.default_rng(0).standard_normal((SLAB_WEIGHTS // _COLUMNS, _COLUMNS), np.float32)
    tries = []
    for _ in range(2):
        since = perf_counter()
        codec.encode(tensor, 0, noise)
        tries.append(perf_counter() - since)
    return min(tries) / noise.size
