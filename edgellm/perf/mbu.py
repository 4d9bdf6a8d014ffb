"""MBU, memory bandwidth utilization: how much of the memory's bandwidth the decoding of an open model uses.

If the machine profile has no bandwidth, it is measured once after a reply, by reading the model's own weights where
they are mapped. That takes no memory, and 512 MiB of weights exceed the caches of nearly every machine. Smaller models
have no MBU until `edgellm bench` or `edgellm plan` has measured. Small pages of the map give a little less bandwidth
than those two find in memory of their own. An MBU far above 1 shows that the bandwidth is too low, because a busy
program disturbed the measurement, or because shared memory gives more for a moment than it sustains: then it is
measured again. The result of so short a measurement is used for this model alone.
"""

from contextlib import suppress
from time import perf_counter

from edgellm.arch.description import Description
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile, Tensor
from edgellm.perf.machine_profile import MEMORY, load_profile
from edgellm.perf.microbenchmark import Microbenchmark
from edgellm.perf.roofline import Roofline
from edgellm.system.machine import available_memory

_SPAN_BYTES = 512 << 20
_MIN_TOKENS = 16
_MEASUREMENT_S = 0.06
_MAX_PLAUSIBLE = 1.1
"""An MBU above this means that the bandwidth is wrong. It may be a little above 1: the profile has the sustained
bandwidth, and shared memory gives more for moments."""


class MBUEstimator:
    """The MBU of an open model on edgellm's own engine. `bandwidth` (bytes per second) is None until it is known."""

    def __init__(self, file: GGUFFile, model: Description, kv_type: str, threads: int) -> None:
        self.bandwidth = load_profile(threads).get(MEMORY)
        self._threads = threads
        self._roofline = Roofline.of(model, kv_type)
        self._file_bytes = file.nbytes
        self._address, self._weight_bytes = _longest_run(list(file.tensors.values()))
        self._measured = False

    def mbu(self, tps: float, depth: float, draft_bytes: float = 0.0) -> float | None:
        """The MBU of decoding `tps` tokens per second after `depth` tokens on average; None without a bandwidth.

        `draft_bytes` are those that a draft model reads per second besides.
        """
        read = tps * self._roofline.bytes_per_token(depth) + draft_bytes
        return read / self.bandwidth if self.bandwidth else None

    def should_measure(self, tokens: int, mbu: float | None) -> bool:
        """Whether to call `measure` after a reply of `tokens` tokens with this MBU."""
        unknown = mbu is None or mbu > _MAX_PLAUSIBLE
        return unknown and not self._measured and tokens >= _MIN_TOKENS and self._weight_bytes >= _SPAN_BYTES

    def measure(self) -> None:
        """Measure the bandwidth, once, in about a tenth of a second. The model must be open, and the engine idle.

        If the measurement fails, the bandwidth stays as it is.
        """
        if self._measured:
            return
        self._measured = True
        # If the file does not fit in memory, the disk would be measured instead, slowly.
        if self._file_bytes <= available_memory():
            with suppress(EdgeLLMError, MemoryError):
                self.bandwidth = max(self._read_bandwidth(), self.bandwidth or 0)

    def _read_bandwidth(self) -> float:
        with Microbenchmark(self._threads, ["read_sum"]) as benchmark:
            benchmark.read_bandwidth(self._address, _SPAN_BYTES)  # the embeddings may still be on the disk
            started, found = perf_counter(), [benchmark.read_bandwidth(self._address, _SPAN_BYTES)]
            while perf_counter() - started < _MEASUREMENT_S:
                found.append(benchmark.read_bandwidth(self._address, _SPAN_BYTES))
        return sorted(found)[len(found) // 2]


def _longest_run(tensors: list[Tensor]) -> tuple[int, int]:
    """Address and bytes of the weights in the model's file that has most of them: they are in one map."""
    files: dict[object, tuple[int, int]] = {}
    for tensor in tensors:
        first = int(tensor.data.ctypes.data)
        low, high = files.get(tensor.path, (first, first))
        files[tensor.path] = min(low, first), max(high, first + tensor.nbytes)
    low, high = max(files.values(), key=lambda run: run[1] - run[0])
    return low, high - low
