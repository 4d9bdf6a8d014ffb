"""Measurements of the machine: long enough, of every format, and all memory is freed."""

import weakref
from contextlib import nullcontext, suppress
from ctypes import c_int64
from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError
from edgellm.engine import threadpool as threads
from edgellm.perf import bandwidth, cpu_share, microbenchmark
from edgellm.perf.bandwidth import Measurement, int8_peak, measure, memory_benchmark, sustained_bandwidth
from edgellm.perf.cpu_share import CPUShare
from edgellm.perf.machine_profile import MEMORY
from edgellm.perf.microbenchmark import Microbenchmark
from kquants import FORMATS
from kquants.ggml import NAMED_TYPES
from kquants.records import OP_WORDS, OpHeader

BARRIER = OpHeader._fields.index("barrier")
"""Word of an op's record."""


def test_speeds_are_measured() -> None:
    with memory_benchmark(2, size=16 << 20) as read:
        assert all(0 < read() < 1e15 for _ in range(3))
    assert 0 < int8_peak(1) < 1e15


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_weight_of_a_format_is_multiplied(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given, ran = list[Any](), list[Any]()

    def sevens(rows: int, row_bytes: int) -> Any:
        given.append(np.full((rows, row_bytes), 7, np.uint8))
        return given[-1]

    clock = iter([10.0, 14.0])
    with Microbenchmark(threads, [f"matmul_{name.lower()}"]) as benchmark:
        run = benchmark._pool.run

        def noted(at: int, ops: int, batch: int, threads: int | None = None) -> bool:
            if ops:  # there are none when the threads are told to end
                ran.append(np.array((c_int64 * (ops * OP_WORDS)).from_address(at)).reshape(ops, OP_WORDS))
            return run(at, ops, batch, threads)

        monkeypatch.setattr(benchmark._pool, "run", noted)
        monkeypatch.setattr(microbenchmark, "aligned", sevens)
        monkeypatch.setattr(microbenchmark, "perf_counter", lambda: next(clock))
        multiply = benchmark.matmul(name)
        w, _, y = given
        sums = y.view(np.float32)
        untouched = sums[0, 0]
        assert len(np.unique(w)) == 1, "written, and every row alike"
        assert w[0, 0] != 7
        speed = multiply()
    tile_bytes = 16 * NAMED_TYPES[name].row_bytes(2048)
    assert w.nbytes == threads * ((128 << 10) // tile_bytes) * tile_bytes
    assert len(np.unique(sums)) == 1, "alike rows give alike sums"
    assert np.isfinite(sums[0, 0])
    assert sums[0, 0] != untouched, "every row was multiplied"
    (words,) = ran
    assert len(words) == 64
    assert not words[:, BARRIER].any(), "threads would wait for each other after each"
    assert speed == 64 * w.nbytes / 4


def test_the_best_of_each_format_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    found = {"Q4_K": iter([1.0, 3.0, 9.0, 2.0, 4.0]), "F16": iter([5.0, 5.0, 7.0, 5.0, 8.0])}
    monkeypatch.setattr(bandwidth, "perf_counter", lambda: next(clock) * 0.045)
    monkeypatch.setattr(Microbenchmark, "matmul", lambda self, name: lambda: next(found[name]))
    assert measure(1, ["Q4_K", "F16"]).speeds == {"Q4_K": 9, "F16": 8}
    assert measure(1, []).speeds == {}


@pytest.mark.parametrize(("had", "undisturbed"), [(8.0, True), (7.3, True), (7.1, False), (5.3, False)])
def test_another_program_that_takes_the_cpu_is_noticed(
    had: float, undisturbed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads used this many of 8 seconds."""
    wall, used = iter([100.0, 104.0]), iter([50.0, 50.0 + had])
    monkeypatch.setattr(bandwidth, "memory_benchmark", lambda threads, progress: nullcontext(lambda: 1.0))
    monkeypatch.setattr(bandwidth, "_sustained_reads", lambda read: read())
    monkeypatch.setattr(cpu_share, "usable_cpus", lambda: 2)
    monkeypatch.setattr(cpu_share, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(cpu_share, "process_time", lambda: next(used))
    assert measure(2, [MEMORY]) == Measurement({MEMORY: 1.0}, undisturbed)


@pytest.mark.parametrize(("had", "undisturbed"), [(5.5, True), (5.3, False)])
def test_the_share_of_the_cpu_is_that_of_all_spans(
    had: float, undisturbed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four threads on 2 CPUs used this many of 6 s, in the two spans that do not fail."""
    wall, used = iter([0.0, 1.0, 10.0, 12.0, 20.0]), iter([0.0, 1.0, 7.0, 6.0 + had, 99.0])
    monkeypatch.setattr(cpu_share, "usable_cpus", lambda: 2)
    monkeypatch.setattr(cpu_share, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(cpu_share, "process_time", lambda: next(used))
    share = CPUShare(4)
    with share.recording():
        pass
    with share.recording():
        pass
    with suppress(KeyboardInterrupt), share.recording():
        raise KeyboardInterrupt
    assert share.undisturbed == undisturbed


@pytest.mark.parametrize("call", [1, 2])
def test_without_memory_for_threads_or_weights_there_is_one_line(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(threads if call == 1 else microbenchmark, "aligned", full)
    with pytest.raises(EdgeLLMError, match=r"no memory to measure with 1 thread; close other programs, or"):
        measure(1, ["F32"])


def test_a_measurement_lasts_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [0.0]

    def read() -> float:
        speed = 20.0 if ends[-1] < 2 else 10.0
        ends.append(ends[-1] + 1 / speed)
        return speed

    monkeypatch.setattr(bandwidth, "memory_benchmark", lambda threads, progress: nullcontext(read))
    monkeypatch.setattr(bandwidth, "perf_counter", lambda: ends[-1])
    assert measure(1, [MEMORY]).speeds == {MEMORY: 10}, "two seconds with twice the speed are a moment"


def test_the_memory_is_given_back_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, allocated = list[weakref.ref[Any]](), bandwidth._allocate

    def allocate(size: int) -> Any:
        found = allocated(size)
        memory.append(weakref.ref(found.base))
        return found

    monkeypatch.setattr(bandwidth, "_allocate", allocate)
    with memory_benchmark(1, size=16 << 20) as read:
        read()
        assert memory[0]() is not None
    assert memory[0]() is None


def test_the_sustained_bandwidth_is_reached_by_three_of_four_reads() -> None:
    assert sustained_bandwidth([7.0]) == 7
    assert sustained_bandwidth([9.0, 3, 8, 9]) == 3
    assert sustained_bandwidth([9.0, 3, 8, 9, 4]) == 4
    assert sustained_bandwidth([30.0] * 6 + [60.0] * 17 + [10.0]) == 30


def test_beyond_a_limit_of_the_process_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(*_: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(bandwidth.np, "empty", limited)
    with pytest.raises(EdgeLLMError, match=r"takes 1.07 GB of it, which this process may not have"):
        measure(1, [MEMORY, "F32"])


def test_without_memory_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "available_memory", lambda: 1 << 20)
    with pytest.raises(EdgeLLMError, match=r"takes 1.07 GB of it, and 1.05 MB are free; close") as error:
        measure(1, [MEMORY])
    assert "\n" not in str(error.value)
