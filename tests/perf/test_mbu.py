"""MBU: the share of the memory's bandwidth that decoding used, and when that bandwidth is measured."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgellm import EdgeLLMError, Model
from edgellm.arch import describe
from edgellm.generate.generation import Generation
from edgellm.gguf import GGUFFile
from edgellm.perf import mbu as mbu
from edgellm.perf.machine_profile import MEMORY, load_profile, save_profile
from edgellm.perf.mbu import MBUEstimator
from edgellm.perf.roofline import Roofline
from support.model_file import ModelFile

MIB = 1 << 20
SIZES: dict[str, Any] = {"width": 512, "ffn": 1024, "layers": 4, "types": "F32"}
"""Some 25 MB of weights."""
ENDLESS: dict[str, Any] = {"temp": 0, "logit_bias": {2: -float("inf")}}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No bandwidth is known, and a few MiB of weights are enough to measure one."""
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    monkeypatch.setattr(mbu, "_SPAN_BYTES", 8 * MIB)


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    return model_file(**SIZES)


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A list of speeds, one for each measurement."""
    found: list[float] = []

    def measured(self: MBUEstimator) -> float:
        found.append(1e10)
        return found[-1]

    monkeypatch.setattr(MBUEstimator, "_read_bandwidth", measured)
    yield found


def generate(model: Model, n: int = 16, **options: Any) -> Generation:
    generation = model.stream("the time", max_tokens=n, **ENDLESS, **options)
    for _ in generation:
        pass
    return generation


def begun(model: Model, taken: int, max_tokens: int) -> Generation:
    """A generation from which this many tokens were read."""
    generation = model.stream("the time", max_tokens=max_tokens, **ENDLESS)
    for _ in range(taken):
        next(generation)
    return generation


def test_after_the_first_reply_the_share_is_known(
    path: Path, measurements: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Model.open(path, threads=2, draft="off") as model:  # each token has a step of its own
        generation = model.stream("the time", max_tokens=16, **ENDLESS)
        tokens = [next(generation) for _ in range(16)]
        assert tokens[-1].finish_reason == "length"
        assert (measurements, generation.stats.mbu) == ([], None), "a token had to wait for it"
        assert next(generation, None) is None
        stats = generation.stats
    assert stats.decode_tps is not None
    with GGUFFile.open(path) as file:
        read = Roofline.of(describe(file), "f16").bytes_per_token(stats.prompt_tokens + 16 / 2 - 1)
    assert stats.mbu == pytest.approx(read * stats.decode_tps / 1e10)
    assert load_profile(2) == {}, "a moment is not what lasts"


def test_the_mbu_is_of_the_bytes_read(path: Path) -> None:
    with Model.open(path, threads=2) as model:
        mbu = generate(model).stats.mbu
    assert mbu is not None
    assert 0 < mbu < 1000


def test_a_known_bandwidth_is_not_measured(path: Path, measurements: list[float]) -> None:
    save_profile(1, {MEMORY: 1e15})
    with Model.open(path, threads=1) as model:
        stats = generate(model).stats
    assert stats.mbu is not None
    assert 0 < stats.mbu < 1
    assert not measurements


def test_it_is_looked_for_once(path: Path, measurements: list[float]) -> None:
    with Model.open(path, threads=1) as model:
        generate(model)
        generate(model)
    assert len(measurements) == 1


def test_a_share_far_above_one_is_looked_into(path: Path, measurements: list[float]) -> None:
    save_profile(1, {MEMORY: 1e6})
    with Model.open(path, threads=1) as model:
        shares = [generate(model).stats.mbu for _ in range(2)]
    assert all(share is not None and share < 1000 for share in shares), "these are shares of what was found"
    assert (len(measurements), load_profile(1)) == (1, {MEMORY: 1e6}), "others go on with what was kept"


def test_it_takes_the_median(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds, clock = iter([7e9, 1e10, 9e10, 2e10, 3e10, 1e10]), iter(range(100))
    monkeypatch.setattr(mbu.Microbenchmark, "read_bandwidth", lambda self, address, size: next(speeds))
    monkeypatch.setattr(mbu, "perf_counter", lambda: next(clock) * 0.013)
    with GGUFFile.open(path) as file:
        known = MBUEstimator(file, describe(file), "f16", 1)
        known.measure()
    # The first read brings the weights into memory.
    assert known.bandwidth == 2e10


def test_a_measurement_of_less_changes_nothing(path: Path, measurements: list[float]) -> None:
    with GGUFFile.open(path) as file:
        save_profile(1, {MEMORY: 2e10})
        known = MBUEstimator(file, describe(file), "f16", 1)
        assert known.should_measure(16, 1.5)
        assert not known.should_measure(16, 1.05), "what is kept is what lasts, and this is a little more"
        known.measure()
    assert (known.bandwidth, load_profile(1), len(measurements)) == (2e10, {MEMORY: 2e10}, 1)


def test_short_and_cancelled_replies_cost_nothing(path: Path, measurements: list[float]) -> None:
    with Model.open(path, threads=1) as model:
        generate(model, 15)
        generation = begun(model, 50, max_tokens=100)
        generation.cancel()
        assert next(generation, None) is None
    assert not measurements


def test_a_small_model_would_measure_the_caches(
    path: Path, measurements: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbu, "_SPAN_BYTES", 64 * MIB)
    with Model.open(path, threads=1) as model:
        assert generate(model).stats.mbu is None
    assert not measurements


def test_a_file_larger_than_memory_would_measure_the_disk(
    path: Path, measurements: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbu, "available_memory", lambda: path.stat().st_size - 1)
    with Model.open(path, threads=1) as model:
        assert generate(model).stats.mbu is None
    assert not measurements


def test_a_failed_measurement_is_ignored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise EdgeLLMError("no threads")

    monkeypatch.setattr(mbu, "Microbenchmark", fail)
    with Model.open(path, threads=1) as model:
        assert generate(model).stats.mbu is None
    assert load_profile(1) == {}


def test_measuring_never_waits_for_the_engine(path: Path, measurements: list[float]) -> None:
    with Model.open(path, threads=1) as model:
        session, taken, done = model._generator.session, threading.Event(), threading.Event()

        def compute() -> None:
            taken.set()
            done.wait(30)

        generation = begun(model, 16, max_tokens=16)
        other = threading.Thread(target=session._batcher.run_at_end, args=(compute,))
        other.start()
        taken.wait(30)
        assert next(generation, None) is None
        assert not measurements
        done.set()
        other.join()
        generate(model)
        assert len(measurements) == 1


def test_a_closed_model_is_not_read(path: Path, measurements: list[float]) -> None:
    model = Model.open(path, threads=1)
    generation = begun(model, 16, max_tokens=16)
    model.close()
    assert next(generation, None) is None
    assert not measurements


def test_the_weights_of_a_split_file_are_read_in_its_largest_part(path: Path) -> None:
    with GGUFFile.open(path) as file:
        tensors = list(file.tensors.values())
        parts = [replace(t, path=Path("other" if t.nbytes < 2048 else "main")) for t in tensors]
        address, room = mbu._longest_run(parts)
        large = [t for t in tensors if t.nbytes >= 2048]
        assert address == min(t.data.ctypes.data for t in large)
        assert address + room == max(t.data.ctypes.data + t.nbytes for t in large)
        norm = replace(tensors[0], path=Path("alone"))
        assert mbu._longest_run([norm]) == (norm.data.ctypes.data, norm.nbytes)
