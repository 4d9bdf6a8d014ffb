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
from edgellm.perf.roofline import Roofline
from support.archs import ArchFixture
from support.family_file import EXPERTS, DescribeFamily, without_experts
from support.model_file import ModelFile


@pytest.fixture
def mixture(shared: Path) -> GGUFFile:
    """Qwen3 with experts: 2 of 8 compute a token."""
    return GGUFFile.open(ArchFixture.of(shared, "qwen3_moe").gguf)


def test_experts_that_do_not_fit_come_from_the_disk() -> None:
    """1000 bytes that all tokens read, and 800 of experts, of which a token uses a quarter."""
    roofline = Roofline(1200, {}, {}, {(8, 2): 800})
    assert bytes_from_disk(roofline, free=1800) == 0
    assert bytes_from_disk(roofline, free=1400) == 100  # half of the experts are in memory
    assert bytes_from_disk(roofline, free=1000) == 1200
    assert bytes_from_disk(roofline, free=0) == 1200
    of_two_kinds = Roofline(1300, {}, {}, {(8, 2): 800, (4, 1): 400})
    assert bytes_from_disk(of_two_kinds, free=1600) == 150


def test_the_stacks_of_a_file_are_its_experts(mixture: GGUFFile) -> None:
    experts = sum(t.nbytes for name, t in mixture.tensors.items() if name.endswith("_exps.weight"))
    assert sum(stack.nbytes for stack in expert_stacks(describe(mixture))) == experts


def test_a_dense_model_is_read_from_the_disk_for_each_token(model_file: ModelFile) -> None:
    path = model_file()
    with GGUFFile.open(path) as file:
        weights = sum(tensor.nbytes for tensor in file.tensors.values())
        roofline = Roofline.of(describe(file), "f16")
    assert forecast(path, roofline, free=weights) is None
    found = forecast(path, roofline, free=weights - 1)
    assert found and found.bytes_per_token == weights


def test_what_no_token_reads_need_not_fit(described_family: DescribeFamily, tmp_path: Path) -> None:
    """Layer 3 predicts further tokens, which is not computed."""
    keys = EXPERTS | {"leading_dense_block_count": 1, "nextn_predict_layers": 1}
    shapes = without_experts(0) | {"blk.3.nextn.eh_proj.weight": (32, 64)}
    roofline, path = Roofline.of(described_family("glm4moe", keys, shapes), "f16"), tmp_path / "m.gguf"
    with GGUFFile.open(path) as file:
        read = sum(tensor.nbytes for name, tensor in file.tensors.items() if not name.startswith("blk.3."))
    assert forecast(path, roofline, free=read) is None
    assert forecast(path, roofline, free=read - 1) is not None


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
