"""Estimates of a conversion's memory and time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
import psutil

from converters.row_converter import RowConverter, is_copied
from converters.streaming import CHUNK_WEIGHTS, chunk_weights
from converters.tensors import PlannedTensor

_COLUMNS = 1 << 12


_ARRAYS, _COMPENSATED_ARRAYS = 3, 7
"""Arrays of a chunk, of 4 bytes a weight: as read, as float32, as written; where errors are compensated also the
weights by columns, their errors, and the squares of these as float64."""


def estimate_memory(tensors: Sequence[PlannedTensor], threads: int) -> int:
    """Bytes: this process now, what reading holds, and for each thread what one chunk takes."""
    held = max((tensor.source.held for tensor in tensors), default=0)
    return int(psutil.Process().memory_info().rss) + held + threads * max(map(_chunk_bytes, tensors), default=0)


def _chunk_bytes(tensor: PlannedTensor) -> int:
    weights = min(max(chunk_weights(tensor), tensor.source.columns), tensor.weights)
    return 4 * weights * (_COMPENSATED_ARRAYS if tensor.compensated else _ARRAYS)


def estimate_seconds(converter: RowConverter, tensors: Sequence[PlannedTensor], threads: int) -> float:
    """Seconds to encode all tensors, measured on a chunk of noise per type; reading and writing overlap with it."""
    weights: Counter[str] = Counter()
    encoded = [tensor for tensor in tensors if not is_copied(tensor)]
    example = {tensor.type.name: tensor for tensor in encoded}
    for tensor in encoded:
        weights[tensor.type.name] += tensor.source.row_count * tensor.source.columns
    return sum(n * _seconds_per_weight(converter, example[kind]) for kind, n in weights.items()) / threads


def _seconds_per_weight(converter: RowConverter, tensor: PlannedTensor) -> float:
    """The better of two trials: the first one runs with cold caches."""
    noise = np.random.default_rng(0).standard_normal((CHUNK_WEIGHTS // _COLUMNS, _COLUMNS), np.float32)
    tries = []
    for _ in range(2):
        since = perf_counter()
        converter.encode(replace(tensor, importance=None), 0, noise)
        tries.append(perf_counter() - since)
    return min(tries) / noise.size
