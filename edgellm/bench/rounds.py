"""The rounds of a benchmark: both sides take turns, never at once, so that a disturbance affects both."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import harmonic_mean, median
from time import sleep

from edgellm.bench.baseline import Baseline
from edgellm.bench.cold_start import time_baseline_cold_start, time_cold_start
from edgellm.bench.devices import DeviceCounters
from edgellm.bench.machine_limits import MachineLimits
from edgellm.bench.results import BenchResult, DecodeSlice, Round, SideTimes
from edgellm.bench.workload import UNTIMED_STEPS, Workload
from edgellm.engine import protocol
from edgellm.fmt import counted

COLD_START_ROUNDS = 3
"""Rounds with a cold start; its time varies less than the others, and is long for large files."""

SLICE_STEPS, SLICE_BYTES = 16, 8 << 30
"""Decode steps in a slice, or as many as read this many bytes if those are more (steps of small models are short). The
memory is measured before and after each slice, and both sides decode it in turn: memory that other machines share gives
up to twice as much for a second or two, or for parts of one. With a GPU there is one slice, as it is kept busy for
seconds before each."""

_REST_S = 0.05
"""Seconds in which threads that spin after their work, as OpenMP's do, go to sleep."""

_BUSY_S = 2.0
"""Seconds for which a GPU works before it is timed. An idle GPU runs at a fraction of its clock and needs up to two
seconds to reach all of it (measured on an H200: 345 to 1980 MHz)."""

OnStatus = Callable[[str], None]
"""Shows a line that says what is measured now."""


class Bench:
    """Both sides, open and warmed up. `round` adds one round to `result`."""

    def __init__(
        self,
        path: Path,
        result: BenchResult,
        sides: dict[str, Workload | Baseline],
        prompt: str,
        engine: protocol.Engine,
        limits: MachineLimits,
    ) -> None:
        self._path, self.result, self._sides, self._prompt = path, result, sides, prompt
        self._devices, self._max_rows, self._limits = DeviceCounters(engine), engine.max_rows, limits

    def round(self, on_status: OnStatus) -> None:
        """Measure the machine and each side; the side that was first in the last round is second now."""
        result, options, done = self.result, self.result.options, len(self.result.rounds)
        order = list(self._sides)[:: -1 if done % 2 else 1]

        def begin(what: str) -> None:
            on_status(f"{counted(result.threads, 'thread')}, round {done + 1} of {options.rounds}: {what}")
            sleep(_REST_S)

        begin("the machine")
        peak = self._limits.begin_round()
        prefill = self._prefill(order, begin) if options.prompt_tokens else {}
        slices = self._decode(order, begin) if options.tokens else []
        cold = {name: self._cold_start(name, begin) for name in order} if done < COLD_START_ROUNDS else {}
        bandwidth = median([each.bandwidth for each in slices] or [harmonic_mean(self._read_memory(begin))])
        decode = {name: sum(each.seconds[name] for each in slices) or None for name in order}
        times = {name: SideTimes(prefill.get(name), decode[name], cold.get(name)) for name in order}
        result.rounds.append(Round(bandwidth, peak, self._limits.end_round(), times, slices))

    def _read_memory(self, begin: OnStatus) -> list[float]:
        begin("the machine")
        return self._limits.read_memory()

    def _prefill(self, order: list[str], begin: OnStatus) -> dict[str, float]:
        """Seconds of each side."""
        n = self.result.options.prompt_tokens
        seconds = self._time_sides("prefill", (n,), order, begin)
        self.result.devices["prefill"] = self._devices.end(n, -(-n // self._max_rows))
        return seconds

    def _decode(self, order: list[str], begin: OnStatus) -> list[DecodeSlice]:
        options, slices = self.result.options, list[DecodeSlice]()
        step_bytes = self.result.roofline.step_weight_bytes(options.parallel)
        longest = max(SLICE_STEPS, int(SLICE_BYTES // step_bytes))
        reads_before = self._read_memory(begin)
        for steps, before in _slices(options.tokens, options.tokens if self._devices.on_gpu else longest):
            seconds = self._time_sides("decode", (steps, before), order, begin)
            reads_after = self._read_memory(begin)
            slices.append(DecodeSlice(steps, before, harmonic_mean(reads_before + reads_after), seconds))
            reads_before = reads_after
        passes = options.tokens + UNTIMED_STEPS
        self.result.devices["decode"] = self._devices.end(passes * options.parallel, passes)
        return slices

    def _time_sides(self, phase: str, amounts: tuple[int, ...], order: list[str], begin: OnStatus) -> dict[str, float]:
        seconds = {}
        for name in order:
            side = self._sides[name]
            begin(name)
            if self._devices.on_gpu and isinstance(side, Workload):
                side.keep_busy(_BUSY_S)
                self._devices.begin()  # once in a phase, as there is one slice
            seconds[name] = getattr(side, phase)(*amounts)
        return seconds

    def _cold_start(self, name: str, begin: OnStatus) -> float:
        side, options, threads = self._sides[name], self.result.options, self.result.threads
        begin(name)
        if isinstance(side, Baseline):
            return time_baseline_cold_start(self._path, options, threads, side.repacked)
        return time_cold_start(self._path, options, threads, self._prompt)


def _slices(steps: int, longest: int) -> list[tuple[int, int]]:
    """The number of steps in each slice, and before it; slices have at most `longest` steps, nearly equally many."""
    count = -(-steps // longest)
    ends = [steps * i // count for i in range(1, count + 1)]
    return [(end - before, before) for before, end in pairwise([0, *ends])]
