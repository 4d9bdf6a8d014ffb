"""What is measured and kept of a machine's memory, and what a model reads of it, counted by hand."""

import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conftest import ModelFile
from hypothesis import given
from hypothesis import strategies as st

from edgellm import EdgeLLMError, bandwidth
from edgellm.arch import describe
from edgellm.bandwidth import Traffic, decode_tps, int8_peak, keep, kept, measure, memory_reads, sustained
from edgellm.gguf import GGUFFile
from edgellm.home import bandwidth_file

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "vocab": 320, "layers": 2}
LAYER = 4 * (64 + 64 * 64 + 2 * 32 * 64 + 64 * 64 + 64 + 3 * 64 * 96)
"""Bytes of a layer of float32: norm, q, k and v, output, norm, gate, up and down."""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_speeds_are_measured() -> None:
    with memory_reads(2, size=16 << 20) as read:
        assert all(0 < read() < 1e15 for _ in range(3))
    assert 0 < int8_peak(1) < 1e15


def test_a_measurement_lasts_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [0.0]

    def read() -> float:
        speed = 20.0 if ends[-1] < 2 else 10.0
        ends.append(ends[-1] + 1 / speed)
        return speed

    monkeypatch.setattr(bandwidth, "memory_reads", lambda threads, progress: nullcontext(read))
    monkeypatch.setattr(bandwidth, "perf_counter", lambda: ends[-1])
    assert measure(1) == 10, "two seconds with twice the speed are a moment"


def test_the_memory_is_given_back_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, allocated = list[weakref.ref[Any]](), bandwidth._memory

    def allocate(size: int) -> Any:
        found = allocated(size)
        memory.append(weakref.ref(found.base))
        return found

    monkeypatch.setattr(bandwidth, "_memory", allocate)
    with memory_reads(1, size=16 << 20) as read:
        read()
        assert memory[0]() is not None
    assert memory[0]() is None


def test_what_three_of_four_reads_reach_lasts() -> None:
    assert sustained([7.0]) == 7
    assert sustained([9.0, 3, 8, 9]) == 3
    assert sustained([9.0, 3, 8, 9, 4]) == 4
    assert sustained([30.0] * 6 + [60.0] * 17 + [10.0]) == 30


def test_without_memory_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "available_memory", lambda: 1 << 20)
    with pytest.raises(EdgeLLMError, match=r"takes 1.07 GB of it, and 1.05 MB are free; close") as error:
        measure(1)
    assert "\n" not in str(error.value)


def test_what_is_kept_is_kept_for_each_number_of_threads(home: Path) -> None:
    assert kept(1) is None
    keep(1, 2e10)
    keep(4, 5e10)
    keep(1, 1.5e10)
    assert [kept(n) for n in (1, 2, 4)] == [1.5e10, None, 5e10]
    assert [path.name for path in (home / "cache").iterdir()] == ["bandwidth.json"]


def test_another_cpu_is_another_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(1, 2e10)
    monkeypatch.setattr(bandwidth, "cpu_name", lambda: "another")
    assert kept(1) is None
    keep(1, 3e10)
    monkeypatch.undo()
    monkeypatch.setenv("EDGELLM_HOME", str(home))
    assert kept(1) == 2e10


DAMAGED = [b"", b"\xff", b"[]", b"7", b'{"CPU 1": 1', b"[" * 100_000]
DAMAGED += [b'{"CPU 1": %s}' % value for value in (b'"2e10"', b"null", b"true", b"NaN", b"-1", b"0", b"1e999", b"[]")]


@pytest.mark.parametrize("found", [*DAMAGED, b'{"CPU 1": 1%s}' % (b"0" * 5000)])
def test_what_is_damaged_counts_as_nothing(home: Path, monkeypatch: pytest.MonkeyPatch, found: bytes) -> None:
    monkeypatch.setattr(bandwidth, "cpu_name", lambda: "CPU")
    bandwidth_file().parent.mkdir(parents=True)
    bandwidth_file().write_bytes(found)
    assert kept(1) is None
    keep(1, 2e10)
    assert kept(1) == 2e10


def test_a_whole_number_is_a_speed_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "cpu_name", lambda: "CPU")
    bandwidth_file().parent.mkdir(parents=True)
    bandwidth_file().write_text('{"CPU 1": 20000000000}')
    assert kept(1) == 2e10


def test_where_nothing_can_be_written_nothing_is_kept(home: Path) -> None:
    home.write_text("a file where the folder should be")
    keep(1, 2e10)
    assert kept(1) is None
    assert home.read_text() == "a file where the folder should be"


def test_a_folder_in_the_way_stays(home: Path) -> None:
    bandwidth_file().mkdir(parents=True)
    keep(1, 2e10)
    assert kept(1) is None
    assert [path.name for path in (home / "cache").iterdir()] == ["bandwidth.json"]


def traffic(path: Path, kv_type: str = "f16") -> Traffic:
    with GGUFFile.open(path) as file:
        return Traffic.of(describe(file), kv_type)


def test_a_token_reads_every_weight_once(model_file: ModelFile) -> None:
    tied = traffic(model_file(**SIZES, types="F32"))
    assert tied.weights == 2 * LAYER + 4 * 64 + 4 * 64 * 320
    untied = traffic(model_file(**SIZES, types="F32", tied=False))
    assert untied.weights == tied.weights + 4 * 64  # and a row of the embedding
    biased = traffic(model_file(**SIZES, types="F32", arch="qwen2"))
    assert biased.weights == tied.weights + 2 * 4 * (64 + 32 + 32)
    normed = traffic(model_file(**SIZES, types="F32", arch="qwen3"))
    assert normed.weights == tied.weights + 2 * 4 * (32 + 32)
    small = traffic(model_file(**SIZES, types="Q8_0"))
    norms = 4 * 64 * 5
    assert small.weights == norms + (tied.weights - norms) // 4 * 34 // 32


@pytest.mark.parametrize(("kv_type", "size"), [("f16", 2), ("f32", 4)])
def test_a_token_reads_the_cells_of_those_before_it_and_its_own(model_file: ModelFile, kv_type: str, size: int) -> None:
    found = traffic(model_file(**SIZES, types="F32"), kv_type)
    assert found.cell == 2 * 1 * (32 + 32) * size  # layers, KV heads, key and value
    assert found.per_token(0) == found.weights + found.cell
    assert found.per_token(100) == found.weights + 101 * found.cell


@given(st.integers(10**5, 10**11), st.integers(0, 10**6), st.integers(1, 200), st.floats(1e9, 5e11), st.integers(1, 64))
def test_a_prediction_stays_below_what_the_memory_gives(
    weights: int, cell: int, layers: int, speed: float, threads: int
) -> None:
    given = Traffic(weights, cell)
    tps = decode_tps(given, layers, speed, threads, 100)
    assert 0 < tps < speed / given.per_token(100)
    assert decode_tps(given, layers, speed, threads, 200) <= tps < decode_tps(given, layers, 2 * speed, threads, 100)
    assert (
        decode_tps(given, layers + 1, speed, threads, 100) < tps <= decode_tps(given, layers, speed, threads + 1, 100)
    )


@pytest.mark.parametrize(
    ("cpu", "measured"),
    [
        ("AMD EPYC", [("Q4_K_M", 45.2e9, 2, 54.4), ("Q4_K_M", 41.8e9, 1, 48.3), ("Q8_0", 81.1e9, 2, 52.1)]),
        ("Intel(R) Xeon(R)", [("Q4_K_M", 35.6e9, 2, 40.9), ("Q4_K_M", 17.7e9, 1, 21.0), ("Q8_0", 35.4e9, 2, 25.0)]),
    ],
)
def test_what_was_measured_is_expected(
    cpu: str, measured: list[tuple[str, float, int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Bytes per second and threads, of a Zen 5 and a Granite Rapids, and the median of bench; weights of 16 layers.
    monkeypatch.setattr(bandwidth, "cpu_name", lambda: cpu)
    weights = {"Q4_K_M": Traffic(803_000_000, 65_536), "Q8_0": Traffic(1_316_500_000, 65_536)}
    for kind, speed, threads, tps in measured:
        assert decode_tps(weights[kind], 16, speed, threads) == pytest.approx(tps, rel=0.08)
