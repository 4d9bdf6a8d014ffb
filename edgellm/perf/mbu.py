"""How much of the memory's bandwidth the decoding of an open model uses: MBU.

A bandwidth that is not kept (see `edgellm.perf.machine_profile`) is measured once after a reply, by reading the model's own
weights where they are mapped: that takes no memory, and 512 MiB of them are more than the caches of nearly every
machine hold. Smaller models go without, until `bench` or `plan` has measured. Where the map has small pages it finds a
little less than those two find in memory of their own. A share far above 1 tells that too little was found, as it is
beside a busy program, or that memory gives more for a moment than it does for long, and makes it look again. What it
finds in so short a time is for this model alone.
"""

from contextlib import suppress
from time import perf_counter

from edgellm.arch.description import Description
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile, Tensor
from edgellm.perf.machine_profile import MEMORY, kept
from edgellm.perf.microbenchmark import Yardstick
from edgellm.perf.roofline import Traffic
from edgellm.system.machine import available_memory

_SPAN = 512 << 20
_LEAST_TOKENS = 16
_PATIENCE_S = 0.06
_IMPOSSIBLE = 1.1
"""A share that tells of a wrong bandwidth: what is kept is what lasts, and a reply may meet a little more."""


class Gauge:
    """The MBU of an open model on our engine. `bandwidth` (bytes per second) is None until it is known."""

    def __init__(self, file: GGUFFile, model: Description, kv_type: str, threads: int) -> None:
        self.bandwidth = kept(threads).get(MEMORY)
        self._threads = threads
        self._traffic = Traffic.of(model, kv_type)
        self._file_bytes = file.nbytes
        self._address, self._room = _longest_run(list(file.tensors.values()))
        self._tried = False

    def mbu(self, tps: float, depth: float) -> float | None:
        """The share of the bandwidth that decoding uses at this speed, `depth` tokens in on average."""
        return tps * self._traffic.per_token(depth) / self.bandwidth if self.bandwidth else None

    def wanted(self, tokens: int, mbu: float | None) -> bool:
        """Whether to `probe` after a reply of so many tokens, which had this MBU."""
        unknown = mbu is None or mbu > _IMPOSSIBLE
        return unknown and not self._tried and tokens >= _LEAST_TOKENS and self._room >= _SPAN

    def probe(self) -> None:
        """Measure the bandwidth, in about a tenth of a second; once. The model must be open, and nobody compute.

        What keeps this from working leaves the bandwidth as it was.
        """
        if self._tried:
            return
        self._tried = True
        # Where not all of the file fits, the disk would be measured, and take its time.
        if self._file_bytes <= available_memory():
            with suppress(EdgeLLMError, MemoryError):
                found = self._measured()
                self.bandwidth = max(found, self.bandwidth or 0)

    def _measured(self) -> float:
        with Yardstick(self._threads, ["read_sum"]) as yardstick:
            yardstick.read(self._address, _SPAN)  # the embeddings among them may still be on the disk
            started, found = perf_counter(), [yardstick.read(self._address, _SPAN)]
            while perf_counter() - started < _PATIENCE_S:
                found.append(yardstick.read(self._address, _SPAN))
        return sorted(found)[len(found) // 2]


def _longest_run(tensors: list[Tensor]) -> tuple[int, int]:
    """Address and bytes of the weights in that file of the model which has most of them: they lie in one map."""
    parts: dict[object, tuple[int, int]] = {}
    for tensor in tensors:
        first = int(tensor.data.ctypes.data)
        low, high = parts.get(tensor.path, (first, first))
        parts[tensor.path] = min(low, first), max(high, first + tensor.nbytes)
    low, high = max(parts.values(), key=lambda part: part[1] - part[0])
    return low, high - low
