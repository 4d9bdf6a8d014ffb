"""Models larger than the memory: what a token reads from the disk, counted by hand, and the speed of a file's disk."""

from pathlib import Path

import pytest

from edgellm.arch import describe
from edgellm.engine.disk import expert_stacks
from edgellm.generate.engines import speed_warnings
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf import disk
from edgellm.perf.disk import DiskForecast, bytes_from_disk, forecast, measure_bandwidth
from support.archs import ArchFixture
from support.model_file import ModelFile


@pytest.fixture
def mixture(shared: Path) -> GGUFFile:
    """Qwen3 with experts: 2 of 8 compute a token."""
    return GGUFFile.open(ArchFixture.of(shared, "qwen3_moe").gguf)


def test_experts_that_do_not_fit_come_from_the_disk(mixture: GGUFFile) -> None:
    model = describe(mixture)
    experts = sum(t.nbytes for name, t in mixture.tensors.items() if name.endswith("_exps.weight"))
    assert sum(stack.nbytes for stack in expert_stacks(model)) == experts
    weights = experts + 1000
    used = experts * 2 / 8
    assert bytes_from_disk(model, weights, free=1000 + experts // 2) == used / 2  # half of the experts are in memory
    assert bytes_from_disk(model, weights, free=1000) == 1000 + used
    assert bytes_from_disk(model, weights, free=0) == 1000 + used


def test_a_dense_model_is_read_from_the_disk_for_each_token(model_file: ModelFile) -> None:
    with GGUFFile.open(model_file()) as file:
        weights = sum(tensor.nbytes for tensor in file.tensors.values())
        assert forecast(file, free=weights) is None
        found = forecast(file, free=weights - 1)
        assert found and found.bytes_per_token == weights


def test_measures_the_disk_and_says_nothing_of_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8 << 20))
    speed = measure_bandwidth(path)
    assert speed is not None and 1e5 < speed < 1e12
    path.write_bytes(b"less than a block")
    assert measure_bandwidth(path) is None
    assert measure_bandwidth(tmp_path / "gone") is None


def test_a_warning_names_the_speed_to_expect(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.engines.available_memory", lambda: 1000)
    monkeypatch.setattr(disk, "measure_bandwidth", lambda path: 2e6)
    with GGUFFile.open(model_file()) as file:
        (warning,) = speed_warnings(file, LoadOptions())
        weights = sum(tensor.nbytes for tensor in file.tensors.values())
    assert f"about {2e6 / weights:,.1f} tokens/s" in warning and "1 kB of memory are free" in warning


def test_without_a_measurement_no_speed_is_named() -> None:
    assert DiskForecast(1e9, None).tps is None
    assert DiskForecast(2e9, 1e9).tps == 0.5
