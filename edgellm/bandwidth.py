"""What this machine gives, bytes read and int8 products a second, and what a model wants of it.

Decoding reads all weights for every token: its speed is bound by the bandwidth of the memory. The yardstick is a
prefetching vector read over memory that no cache holds, by as many threads as the model has. Memory that others share
gives up to twice as much for seconds or minutes, while they rest. So what is kept, and tells what to expect, is
`sustained` over four seconds, or the median of all reads of `edgellm bench`, whose rounds last longer; the best of five
is what it can give beside one of these rounds.
"""

import json
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import hypot, isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.description import Description, tensors_in
from edgellm.engine.program import build
from edgellm.errors import EdgeLLMError
from edgellm.gguf.printable import size as in_words
from edgellm.home import bandwidth_file
from edgellm.machine import available_memory, cpu_name
from kquants.layout import PAGE

if TYPE_CHECKING:
    from kquants.jit import Progress

LAYER_S = 20e-6
"""Seconds that a layer takes beside reading: barriers, norms, activations. Measured: one thread 6 µs, two 20."""

TOKEN_S = 100e-6
"""Seconds that a token takes beside its layers, in Python above all. Measured: 60 to 100 µs."""

MULTIPLIED, MULTIPLIED_BY_INTEL = 80e9, 46e9
"""Bytes of weights that a thread multiplies in a second where it need not wait for them. Measured with AVX-512 VNNI:
Q6_K 61, Q4_K 74, Q8_0 88 GB on a Zen 5 (with AVX2 half of that); 37, 43 and 52 GB on a Granite Rapids, whose layers and
tokens of large models take twice as long as those above: what fits counts that, too."""

_MEASURING_S = 4.0
"""How long the memory is read. Two seconds with twice the speed are two thirds of the reads: not three quarters."""

_LEAST_READS = 5
"""So many of a slow memory, too: less than that have no lower quarter."""

_TOUCHED = 64 << 20
"""Bytes that are asked of the system at once."""


@contextmanager
def memory_reads(
    threads: int, *, size: int = 1 << 30, progress: "Progress | None" = None
) -> Iterator[Callable[[], float]]:
    """What reads `size` bytes with `threads` threads, each time it is called, and tells the bytes a second.

    The memory is held until the end, beside what else is measured: what is given back, a virtual machine may hand on
    in the next seconds, in which decoding was 6 % slower. `progress` is called while kernels are compiled. Raises
    EdgeLLMError where so many bytes or threads cannot be had: a smaller span might measure a cache.
    """
    from edgellm.yardstick import Yardstick  # brings LLVM, which `kept` and `Traffic` can do without

    memory = _memory(size)
    address = memory.ctypes.data  # what is given out must not hold the memory
    with Yardstick(threads, "read_sum", progress) as yardstick:
        yield lambda: yardstick.read(address, size)


def measure(threads: int, progress: "Progress | None" = None) -> float:
    """The sustained bandwidth, in about four seconds. Raises EdgeLLMError as `memory_reads` does."""
    with memory_reads(threads, progress=progress) as read:
        end, speeds = perf_counter() + _MEASURING_S, [read() for _ in range(_LEAST_READS)]
        while perf_counter() < end:
            speeds.append(read())
    return sustained(speeds)


def sustained(speeds: list[float]) -> float:
    """What three of four reads reach: moments with more do not change it, nor a few with less."""
    return sorted(speeds)[(len(speeds) - 1) // 4]


def int8_peak(threads: int) -> float:
    """Products of two int8, each added to a sum, that `threads` threads make in a second: the best of five."""
    from edgellm.yardstick import Yardstick

    with Yardstick(threads, "int8_peak") as yardstick:
        return max(yardstick.multiply() for _ in range(5))  # at first, threads may share a core for some milliseconds


def _memory(size: int) -> NDArray[np.uint8]:
    """So many bytes of memory of our own, from the start of a page on."""
    free = available_memory()
    if free < size:
        raise EdgeLLMError(
            f"measuring the memory's bandwidth takes {in_words(size)} of it, and {in_words(free)} are free; "
            "close other programs"
        )
    memory = np.empty(size + mmap.PAGESIZE, np.uint8)  # in huge pages on Linux: NumPy asks for them
    for first in range(0, len(memory), _TOUCHED):  # all at once may take seconds, in which Ctrl-C would wait
        memory[first : first + _TOUCHED : mmap.PAGESIZE] = 1  # before, all of it is one and the same page
    start = -memory.ctypes.data % mmap.PAGESIZE
    return memory[start : start + size]


@dataclass(frozen=True)
class Traffic:
    """The bytes of memory that decoding a token reads: `weights`, and `cell` for each token that it sees."""

    weights: int
    cell: int

    @classmethod
    def of(cls, model: Description, kv_type: str) -> "Traffic":
        """What a model reads: every tensor of the layers and the output head once, and a row of the embedding.

        Where the embedding is the output head too, all of it is read anyway.
        """
        used = {id(t): t.nbytes for t in tensors_in([model.layers, model.output_norm, model.output])}
        row = 0 if id(model.embedding) in used else model.embedding.type.row_bytes(model.width)
        return cls(sum(used.values()) + row, build(model, kv_type).page_bytes // PAGE)

    def per_token(self, depth: float) -> float:
        """Bytes read to decode one token that has `depth` tokens before it."""
        return self.weights + self.cell * (depth + 1)


def decode_tps(traffic: Traffic, layers: int, bandwidth: float, threads: int, depth: float = 0) -> float:
    """The tokens per second to expect, `depth` tokens in, where memory gives `bandwidth` bytes per second for long.

    Weights and KV cells are read as fast as that, and multiplied meanwhile; the faster memory is, the less of the
    multiplying it hides. How the two add up is what fits. With one thread and two, where memory gave as much as before,
    was measured: on a Zen 5, 42 to 85 GB/s, 0.93 to 1.06 of it; on a Granite Rapids, 18 to 36 GB/s, 0.96 to 1.01.
    """
    read, multiplied = traffic.per_token(depth), MULTIPLIED_BY_INTEL if "Intel" in cpu_name() else MULTIPLIED
    return 1 / (hypot(read / bandwidth, read / (multiplied * threads)) + layers * LAYER_S + TOKEN_S)


def kept(threads: int) -> float | None:
    """The bandwidth (bytes per second) to expect of this CPU with so many threads, if it was measured and kept."""
    speed = _kept().get(_key(threads))
    return speed if isinstance(speed, float) and isfinite(speed) and speed > 0 else None


def keep(threads: int, bytes_per_s: float) -> bool:
    """Keep a measured bandwidth for `kept`, in other processes too; False where nothing can be written."""
    path, speeds = bandwidth_file(), _kept() | {_key(threads): bytes_per_s}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(speeds, file)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        return True
    return False


def _key(threads: int) -> str:
    return f"{cpu_name()} {threads}"


def _kept() -> dict[str, object]:
    """All that was kept; nothing if the file is missing or damaged."""
    try:
        found = json.loads(bandwidth_file().read_bytes(), parse_int=float)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
